"""HarsanyiCNN, the Harsanyi network for images: its players are the cells of the stem's map."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harsanyinet.images.cells import Sides, along_sides, grown_fields, places, sides_of, sizes_of
from harsanyinet.images.cnn_settings import CNNSettings
from harsanyinet.images.conv_blocks import GroupBlock, LocationBlock, StemName, evaluating, make_stem, pixels_per_cell
from harsanyinet.networks.base import HarsanyiNet, full_precision, present_rows
from harsanyinet.networks.draws import Draws, from_seed, normal
from harsanyinet.networks.structure import Spreader, Structure, by_matrices


class HarsanyiCNN(HarsanyiNet):
    """A convolutional Harsanyi network: exact Shapley values of the cells of z0 from the forward pass.

    Players are numbered row by row: ``ex.values.reshape(B, H, W, K)`` is the map of each class.

    What is left out is as in `CNNSettings`: 4 blocks of 32 channels, the activation gate, beta 100, gamma 0.05, the
    paper's stem, a readout of its own for every cell. What a network was made with stands in `net.settings`.

    Args:
        in_channels: Channels of the images.
        image_size: Height and width, or one number for both.
        n_outputs: K.
        channels: Channels of every block, and of z0 under a named stem; or one number per block, the first for z0 too.
        n_blocks: Number of blocks.
        gate, beta, gamma, seed, soft_and, output_bias: As in `HarsanyiMLP`.
        stem: `"paper"` (the default), `"patch"`, `"deep"`, `"residual"`, `"map"` (see `conv_blocks.make_stem`), or any
            module whose output is a map.
        patch: Height and width of a patch under the patch stem.
        children: Per `"location"` (always in the activation gate) or per `"group"` of channels (presence gate).
        groups: Groups of channels.
        strides: One number per block, 2 where the map is to become half as fine (children per group); by default 1.
        learn_children: Whether children are trained; always where they are chosen per location.
        tau_gradient: `"formula"`, as in the paper, or `"code"`, as in the authors' code, where beta does not act on the
            AND's own selection (activation gate, training only).
        gate_floor: A gate up to this is zero; 1e-3 in the authors' code (activation gate).
        readout: `"cell"`: every cell has weights of its own; `"shared"`: all cells of a block have the same.
        rank: Cell readouts map a block to so many values first, as in the paper; None for a full matrix.

    Shape:
        - x: (B, in_channels, H, W); present: (P,) or (B, P) bool; output: (B, n_outputs).

    Examples:
        >>> net = HarsanyiCNN(1, 8, 3, channels=4, n_blocks=2, gate="presence").eval()
        >>> net.explain(torch.rand(2, 1, 8, 8)).values.reshape(2, 4, 4, 3).shape
        (2, 4, 4, 3)
    """

    in_repr: ClassVar = ("in_channels", "image_size", "n_outputs", "channels", "n_blocks", "gate", "children", "groups")
    _sides: tuple[Structure, list[Sides | None]] | None = None

    def __init__(
        self,
        in_channels: int,
        image_size: int | tuple[int, int],
        n_outputs: int,
        *,
        stem: StemName | nn.Module | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        named = "paper" if stem is None else stem
        self.settings: CNNSettings = CNNSettings(
            in_channels=in_channels, image_size=image_size, n_outputs=n_outputs,
            stem=named if isinstance(named, str) else None, **settings,
        )  # fmt: skip
        s = self.settings
        self.in_channels, self.image_size, self.n_outputs, self.gate = s.in_channels, s.size, s.n_outputs, s.gate
        generator = from_seed(s.seed)
        if isinstance(named, str):
            self.stem = make_stem(named, s.in_channels, s.widths[0], generator, s.patch)
        else:
            self.stem = named
            self.unstorable = (
                f"its stem is a {type(named).__name__}; use stem='paper', 'patch', 'deep', 'residual' or 'map'"
            )
        c_in, self.cells = self._look_through_the_stem()
        self.n_players, self.sizes = math.prod(self.cells), sizes_of(self.cells, s.steps)
        below = [c_in, *s.widths]
        self.blocks = nn.ModuleList(self._block(level, below[level], generator) for level in range(s.n_blocks))
        self._make_readout(generator)
        self.make_base_()
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster steps on a CPU

    def _block(self, level: int, c_below: int, generator: Draws) -> LocationBlock | GroupBlock:
        s = self.settings
        if s.per_group:
            return GroupBlock(
                c_below, s.widths[level], groups=s.groups, first=level == 0, stride=s.steps[level], beta=s.beta,
                learned=s.learn_children, generator=generator,
            )  # fmt: skip
        return LocationBlock(
            c_below, s.widths[level], size=self.cells, gate=s.gate, beta=s.beta, gamma=s.gamma, mode=s.soft_and,
            tau_gradient=s.tau_gradient, gate_floor=s.gate_floor, generator=generator,
        )  # fmt: skip

    def _make_readout(self, generator: Draws) -> None:
        """What is trained of `readout_weights`: per block from channels to a few values, then from these to outputs."""
        s, shared = self.settings, self.settings.readout == "shared"
        inner = s.n_outputs if s.rank is None or shared else s.rank
        self.readout_in = nn.ParameterList()
        for width, n_places in zip(s.widths, map(math.prod, self.sizes), strict=True):
            wide = width if shared else n_places * width
            spread = 0.2 / math.sqrt(width) / (math.sqrt(n_places) if shared else 1)
            self.readout_in.append(nn.Parameter(spread * normal((inner, wide), generator)))
        self.readout_out = None
        if inner != s.n_outputs or (s.rank is not None and not shared):
            self.readout_out = nn.Parameter(normal((s.n_outputs, inner), generator) / math.sqrt(inner))

    def _look_through_the_stem(self) -> tuple[int, tuple[int, int]]:
        """Channels and size of z0."""
        like = next(self.stem.parameters(), torch.zeros(()))
        wanted = (self.in_channels, *self.image_size)
        try:
            with torch.no_grad(), evaluating(self.stem):
                z0 = self.stem(torch.zeros(1, *wanted, dtype=like.dtype, device=like.device))
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"stem must take images of shape {wanted}, however: {reason}") from error
        if not isinstance(z0, Tensor) or z0.ndim != 4 or 0 in z0.shape:
            shape = tuple(z0.shape) if isinstance(z0, Tensor) else type(z0).__name__
            raise ValueError(f"stem must return a map (rows, channels, height, width), however: {shape}")
        return z0.shape[1], (z0.shape[2], z0.shape[3])

    def readout_weights(self) -> list[Tensor]:
        """One (K, U, C) tensor per block: what is trained, over the root of the number of places.

        Adam moves every weight by as much, and an output is a sum over thousands of places and channels.
        """
        weights, groups = [], self.settings.groups
        for weight, n_places in zip(self.readout_in, map(math.prod, self.sizes), strict=True):
            scale = math.sqrt(n_places)
            each = weight / scale if self.readout_out is None else (self.readout_out / scale) @ weight
            if self.settings.readout == "shared":
                each = each.view(self.n_outputs, 1, -1).expand(-1, n_places, -1)
            weights.append(each.reshape(self.n_outputs, n_places * groups, -1))
        return weights

    @property
    def pixels_per_cell(self) -> tuple[int, int]:
        """Height and width of the window of pixels behind a player, at most."""
        return pixels_per_cell(self.stem, self.in_channels, self.image_size)

    def child_masks(self) -> list[Tensor]:
        """The children of every unit among those of the block below, or among the cells, (U, D) bool.

        `chosen_children` has them among nine neighbours, (cells, 9) or (groups, 9), in far less memory.
        """
        masks, groups, size = [], self.settings.groups, self.cells
        for level, (chosen, step) in enumerate(zip(self.chosen_children(), self.settings.steps, strict=True)):
            where, valid = places(size, step, chosen.device)
            n_below, size = math.prod(size), self.sizes[level]
            taken = (chosen[None] if self.settings.per_group else chosen[:, None]) & valid[:, None]
            mask = taken.new_zeros(len(where), groups, n_below, groups if level else 1)
            for group in range(groups):
                own = mask[:, group, :, group if level else 0]  # a group reads its own group below
                for k in range(9):
                    own[torch.arange(len(where)), where[:, k]] |= taken[:, group, k]
            masks.append(mask.flatten(2).flatten(0, 1))
        return masks

    def player_map(self) -> Tensor:
        """Every cell of z0 is a player."""
        return torch.eye(self.n_players, device=self.base.device) > 0

    def shown(self, x: Tensor) -> NDArray[Any] | None:
        """A cell is not one number."""
        return None

    def fields_of(self, chosen: list[Tensor]) -> list[Tensor]:
        """By recursion over the children inside the image."""
        return grown_fields(chosen, self.cells, self.settings.steps, self.settings.per_group)

    def spreader(self, readouts: Sequence[Tensor]) -> Spreader:
        """Along rows and columns in turn where all receptive fields are rectangles."""
        structure = self.structure()
        if self._sides is None or self._sides[0] is not structure:
            fields = zip(structure.fields, self.sizes, strict=True)
            self._sides = structure, [sides_of(field, self.cells, size) for field, size in fields]
        sides = [each for each in self._sides[1] if each is not None]
        if len(sides) < len(readouts) or any(readout.shape[2] == 1 for readout in readouts):
            return by_matrices(readouts, structure)
        return along_sides(sides, readouts[0].dtype)

    def units(self, x: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """(B, U, C) per block: cells row by row and, within a cell, groups of channels."""
        self._check(x)
        return self.units_of_map(self.stem(x), present)

    def units_of_map(self, z0: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """The same from the stem's map (B, C, H, W) and the presence of its cells, (P,) or (B, P)."""
        z = z0.permute(0, 2, 3, 1).contiguous()  # (B, H, W, C)
        if present is not None:
            present = present_rows(present, len(z), self.n_players).view(len(z), *self.cells, 1)
            z = torch.where(present, z, 0.0)
        units, groups = [], self.settings.groups
        for block in self.blocks:
            z, present = block(z, present)
            units.append(z.unflatten(3, (groups, -1)).flatten(1, 3))
        return units

    def outputs(self, x: Tensor, present: Tensor | None) -> Tensor:
        """From the units, in training as in inference."""
        return self.read(self.units(x, present))

    def masked_outputs(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """By real passes from z0 on: the stem sees the whole image once, whoever is present."""
        self._check(x)
        with full_precision(x):
            z0 = self.stem(x)

        def outputs(present: Tensor) -> Tensor:
            with full_precision(z0):
                each = (self.units_of_map(z0.expand(len(m), -1, -1, -1), m) for m in torch.split(present, 256))
                return torch.cat([self.read(units).cpu() for units in each])

        return outputs

    def _check(self, x: Tensor) -> None:
        self.check_tensor(x, "images", self.in_channels, *self.image_size)
        if not torch.compiler.is_compiling() and x.numel() and not bool(torch.isfinite(x.detach().sum())):
            raise ValueError("x must be finite, however: some pixel is NaN or infinite")
