"""The settings of `HarsanyiCNN`, checked once. No tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Literal

import numpy as np

from harsanyinet.images.conv_blocks import StemName, TauGradient
from harsanyinet.networks.gates import SoftAnd
from harsanyinet.networks.settings import Gate, at_least_one, one_of, one_per_block, settle, settle_fields

Children = Literal["location", "group"]
Readout = Literal["cell", "shared"]


@dataclass(frozen=True, kw_only=True)
class CNNSettings:
    """The settings of a `HarsanyiCNN`, which says what each is for.

    What was left out is settled here: after that nothing is None but the `stem`, where it is a module of the user's
    own, and a `rank` that is not wanted.
    """

    in_channels: int
    image_size: int | Sequence[int]
    n_outputs: int
    channels: int | Sequence[int] = 32
    strides: Sequence[int] | None = None
    n_blocks: int = 4
    gate: Gate = "activation"
    beta: float = 100.0
    gamma: float = 0.05
    seed: int = 0
    patch: int = 2
    stem: StemName | None = "paper"
    children: Children | None = None
    groups: int = 1
    learn_children: bool = False
    soft_and: SoftAnd = "geometric"
    tau_gradient: TauGradient = "formula"
    gate_floor: float = 0.0
    readout: Readout = "cell"
    rank: int | None = 16
    output_bias: bool | None = None

    def __post_init__(self) -> None:
        if np.shape(self.image_size) not in ((), (2,)):
            raise ValueError(
                f"image_size must be one number, or height and width, however: image_size={self.image_size}"
            )
        height, width = map(index, np.broadcast_to(np.asarray(self.image_size), 2).tolist())
        settle_fields(self)
        at_least_one(height=height, width=width, rank=self.rank)
        settle(self, image_size=(height, width))
        self._settle_lists()
        settle(self, children=self.children or ("location" if self.gate == "activation" else "group"))
        one_of(Children, children=self.children)
        self._check_children()
        if self.stem == "patch" and (height % self.patch or width % self.patch):
            raise ValueError(
                f"patch must divide the height and width of the images, however: patch={self.patch}, {height} x {width}"
            )
        settle(self, output_bias=self.gate == "presence" if self.output_bias is None else self.output_bias)

    def _settle_lists(self) -> None:
        """Channels and strides, of which there is one for each block."""
        one_for_all = np.ndim(self.channels) == 0
        channels = index(self.channels) if one_for_all else tuple(map(index, self.channels))  # type: ignore[arg-type]
        steps = (1,) * self.n_blocks if self.strides is None else tuple(map(index, self.strides))
        settle(self, channels=channels, strides=steps)
        one_per_block(self.n_blocks, channels=self.widths, strides=steps)
        at_least_one(channels=min(self.widths), strides=min(steps))

    def _check_children(self) -> None:
        """What belongs to one way of choosing children is refused under the other."""
        if self.gate == "activation" and self.per_group:
            raise ValueError("children='group' belongs to the presence gate, however: gate='activation'")
        if not self.per_group and self.groups > 1:
            raise ValueError(
                f"groups belong to children='group', however: groups={self.groups} with children='location'"
            )
        if any(width % self.groups for width in self.widths):
            raise ValueError(
                f"channels must be a multiple of groups, however: channels={self.channels}, groups={self.groups}"
            )
        if max(self.steps) > (2 if self.per_group else 1):
            raise ValueError(
                f"strides must be 1, or 2 where children are chosen per group, however: strides={list(self.steps)} "
                f"with children={self.children!r}"
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """The channels of each block."""
        return (self.channels,) * self.n_blocks if isinstance(self.channels, int) else tuple(self.channels)

    @property
    def steps(self) -> tuple[int, ...]:
        """The stride of each block."""
        return tuple(self.strides or ())

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of an image."""
        assert not isinstance(self.image_size, int)
        return self.image_size[0], self.image_size[1]

    @property
    def per_group(self) -> bool:
        """Whether children are chosen per group of channels, not per location."""
        return self.children == "group"
