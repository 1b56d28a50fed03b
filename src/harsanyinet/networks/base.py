"""What every Harsanyi network shares: from units to outputs, Shapley values and explanations. No kind of block.

A network that can compute its units and name its children is a `HarsanyiNet`; prediction, Shapley values and
explanation are three readings of the same unit activations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from harsanyinet import files
from harsanyinet.explanations.explanation import Explanation
from harsanyinet.explanations.names import check_mask_shape
from harsanyinet.networks.draws import left_open
from harsanyinet.networks.settings import as_json
from harsanyinet.networks.structure import Spreader, Structure, dividends_of_units, unit_contributions

CHUNK = 2**20
"""Inference runs in chunks of rows with about so many values per block: fresh memory costs more than arithmetic."""

_UNCERTAIN = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.Dropout, nn.Dropout1d, nn.Dropout2d,
    nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout,
)  # fmt: skip
"""Layers whose output in training is not a function of their input alone."""


class HarsanyiNet(nn.Module, ABC):
    """A network whose output is a constant plus a weighted sum of Harsanyi units (Theorems 2 and 3).

    Subclasses say how units are computed, which children they have and which player stands behind each input. Every
    method is abstract or final: what is written here is overridden nowhere.

    Attributes:
        n_players: How many players there are, P.
        n_outputs: How many raw outputs there are, K.
        base: (K,), the outputs with every player absent, v(empty).
        blocks: Modules with a `child_mask`.
        settings: A frozen dataclass of the arguments that build the same network.
        unstorable: Why they do not, if so.
    """

    n_players: int
    n_outputs: int
    base: Tensor
    blocks: nn.ModuleList
    settings: Any
    unstorable: str | None = None
    in_repr: ClassVar[tuple[str, ...]]  # settings that differ between networks
    _structure: Structure | None = None

    @abstractmethod
    def units(self, x: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """The units of every block, (B, U_l, C_l) each: the one place where they are computed."""

    @abstractmethod
    def outputs(self, x: Tensor, present: Tensor | None) -> Tensor:
        """`read` of the `units`, or the same number by a shorter way."""

    @abstractmethod
    def masked_outputs(self, x: Tensor) -> Callable[[Tensor], Tensor]:
        """From masks (m, P) bool to the outputs (m, K) of one row x (1, ...); what no mask changes is done once."""

    @abstractmethod
    def readout_weights(self) -> list[Tensor]:
        """What the channels of each unit add to each output, one (K, U_l, C_l) tensor per block."""

    @abstractmethod
    def child_masks(self) -> list[Tensor]:
        """The children of every block, (U_l, D_l) bool each."""

    @abstractmethod
    def fields_of(self, chosen: list[Tensor]) -> list[Tensor]:
        """The receptive field of every unit, (U_l, P) bool per block, that chosen children imply."""

    @abstractmethod
    def spreader(self, readouts: Sequence[Tensor]) -> Spreader:
        """What turns units into Shapley values, made once for all rows."""

    @abstractmethod
    def player_map(self) -> Tensor:
        """(D_1, P) bool: the player behind each candidate of the first block."""

    @abstractmethod
    def shown(self, x: Tensor) -> NDArray[Any] | None:
        """A copy (B, P) of what an explanation shows as the players' values; None where that is not one number."""

    @property
    def config(self) -> dict[str, Any]:
        """The settings, as JSON."""
        return as_json(self.settings)

    def make_base_(self) -> None:
        """v(empty): trained from zero on, or always zero."""
        base = torch.zeros(self.n_outputs)
        if self.settings.output_bias:
            self.base = nn.Parameter(base)
        else:
            self.register_buffer("base", base)

    def chosen_children(self) -> list[Tensor]:
        """The children of every block as it keeps them. Receptive fields depend on nothing else."""
        return [block.child_mask() for block in self.blocks]  # type: ignore[operator]

    def check_tensor(self, x: Tensor, rows: str, *shape: int) -> None:
        """Refuses what is not a tensor of rows of this shape in the network's own dtype."""
        if not isinstance(x, Tensor):
            raise TypeError(f"x must be a torch tensor, however: {type(x).__name__}; use torch.as_tensor(x)")
        if x.shape[1:] != shape:
            wanted = ", ".join([rows, *map(str, shape)])
            raise ValueError(f"x must have shape ({wanted}), however: {tuple(x.shape)}")
        if x.dtype != self.base.dtype:
            raise TypeError(
                f"x must have the network's dtype {self.base.dtype}, however: {x.dtype}; "
                "convert x with .to(dtype) or the network with .float() or .double()"
            )

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Raw outputs (B, K); `present` (P,) or (B, P) bool masks players. Full precision, also under autocast."""
        with full_precision(x):
            parts = [self.outputs(rows, mask) for rows, mask in self._chunks(x, present)]
            return parts[0] if len(parts) == 1 else torch.cat(parts)

    def read(self, zs: list[Tensor]) -> Tensor:
        """The outputs (B, K) of units: a constant and a weighted sum."""
        out = self.base
        for z, readout in zip(zs, self.readout_weights(), strict=True):
            out = torch.addmm(out, z.flatten(1), readout.flatten(1).T)
        return out

    @cached_property
    def _values_per_row(self) -> int:
        """The most values that a row has in a block."""
        return max(int(readout[0].numel()) for readout in self.readout_weights())

    def _chunks(self, x: Tensor, present: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
        """The rows in pieces, in inference; in one piece when gradients are recorded or the network is compiled."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or not isinstance(x, Tensor) or x.ndim == 0:
            return [(x, present)]
        size = max(256, CHUNK // self._values_per_row)
        if len(x) <= size:
            return [(x, present)]
        if present is not None:
            present = present_rows(present, len(x), self.n_players)
        starts = range(0, len(x), size)
        return [(x[i : i + size], None if present is None else present[i : i + size]) for i in starts]

    def shapley_values(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Exact Shapley values (B, P, K) as a tensor that gradients flow through, for losses on explanations."""
        self.check_mode()
        with full_precision(x):
            readouts = self.readout_weights()
            units = [unit_contributions(z, r) for z, r in zip(self.units(x, present), readouts, strict=True)]
            return self.spreader(readouts)(units).transpose(1, 2)

    def explain(
        self,
        x: Tensor,
        present: Tensor | None = None,
        *,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        data: ArrayLike | None = None,
    ) -> Explanation:
        """One pass over all rows: exact Shapley values now, dividends and everything else when asked for.

        Args:
            x: Rows, as for `forward`.
            present: Players that are there; those that are not get the value zero.
            feature_names: One per player.
            output_names: One per output.
            data: (B, P) what to show as the players' values; x itself where every column is a player.
        """
        self.check_mode()
        structure = self.structure()
        values, kept = [], []
        with torch.no_grad(), full_precision(x):
            # parameters may be trained on
            readouts = [r.clone() if isinstance(r, nn.Parameter) else r for r in self.readout_weights()]
            spread = self.spreader(readouts)
            for rows, mask in self._chunks(x, present):
                kept.append([unit_contributions(z, r) for z, r in zip(self.units(rows, mask), readouts, strict=True)])
                values.append(spread(kept[-1]))
        coalitions, position = structure.united

        def dividends() -> NDArray[Any]:
            return np.concatenate([dividends_of_units(part, readouts, position, len(coalitions)) for part in kept])

        return Explanation(
            values=(values[0] if len(values) == 1 else torch.cat(values)).transpose(1, 2).cpu().numpy(),
            base_values=self.base.detach().cpu().numpy().copy(),
            coalitions=coalitions,
            dividends=dividends,
            feature_names=feature_names,
            output_names=output_names,
            data=self.shown(x) if data is None else np.array(data),
            copy=False,
        )

    def structure(self) -> Structure:
        """Receptive fields and coalitions of the present children; kept until the children change."""
        chosen = self.chosen_children()
        if self._structure is None or not self._structure.fits(chosen):
            self._structure = Structure(tuple(chosen), tuple(self.fields_of(chosen)))
        return self._structure

    def receptive_fields(self) -> list[Tensor]:
        """One (U_l, P) bool tensor per block; the row of a unit without children is empty."""
        return [field.clone() for field in self.structure().fields]

    def game(self, x: Tensor, row: int = 0) -> Callable[[NDArray[np.bool_]], NDArray[Any]]:
        """The game that `explain` solves for one row, played by real forward passes: masks (m, P) -> (m, K)."""
        self.check_mode()
        if not 0 <= row < len(x):
            raise IndexError(f"row must lie between 0 and {len(x) - 1}, however: row={row}")
        with torch.no_grad():
            outputs = self.masked_outputs(x[row : row + 1].detach())

        def play(masks: NDArray[np.bool_]) -> NDArray[Any]:
            present = torch.from_numpy(np.ascontiguousarray(masks)).to(self.base.device)
            with torch.no_grad():
                return np.asarray(outputs(present).cpu().numpy())

        return play

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the network to one file; `harsanyinet.load` reads it and runs no code from it."""
        files.save_arrays(path, type(self).__name__, *self.to_arrays())

    def to_onnx(self, path: str | PathLike[str], **options: Any) -> None:
        """Writes an ONNX file that predicts and explains without this package; see `harsanyinet.to_onnx`."""
        import harsanyinet  # the room that exports stands above this one: through the front door

        harsanyinet.to_onnx(self, path, **options)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The network as arrays and JSON."""
        if self.unstorable is not None:
            raise TypeError(
                "a network with parts of your own cannot be saved, since a file holds no code, however: "
                f"{self.unstorable}, or save net.state_dict() instead"
            )
        state = {name: tensor.detach().cpu().numpy() for name, tensor in self.state_dict().items()}
        return state, {"config": self.config, "dtype": str(self.base.dtype).split(".")[-1]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Self:
        """From what `to_arrays` returned: on the CPU, in evaluation mode."""
        with left_open():
            net = cls(**meta["config"]).to(getattr(torch, meta["dtype"]))
        net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        return net.eval()

    def check_mode(self) -> None:
        """Raises where an explanation would not be exact: in training mode."""
        if self.training and any(isinstance(m, _UNCERTAIN) and getattr(m, "p", 1) for m in self.modules()):
            raise RuntimeError(
                "explanations are exact in evaluation mode only, however: this network is in training mode and uses "
                "dropout or batch normalisation; call .eval() first"
            )

    def extra_repr(self) -> str:
        """Some of the settings."""
        config = self.config
        return ", ".join(f"{name}={config[name]!r}" for name in self.in_repr)


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """Switches autocast off: in half precision a unit could no longer tell an absent child from a present one."""
    device = x.device.type if isinstance(x, Tensor) else "cpu"
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def present_rows(present: Tensor, n_rows: int, n_players: int) -> Tensor:
    """A mask for all rows, (P,), or one for each, (B, P), checked, as (B, P) bool."""
    if not isinstance(present, Tensor) or present.dtype != torch.bool:
        kind = present.dtype if isinstance(present, Tensor) else type(present).__name__
        raise TypeError(f"present must be a bool tensor, True where a player is there, however: {kind}")
    check_mask_shape(tuple(present.shape), n_rows, n_players)
    return present.expand(n_rows, n_players)
