"""HarsanyiCNN, the Harsanyi network for images: its players are the cells of the stem's map."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harsanyinet.images.conv_blocks import (
    Gate,
    GroupBlock,
    LocationBlock,
    StemName,
    TauGradient,
    evaluating,
    inside,
    make_stem,
    neighbours,
    pixels_per_cell,
)
from harsanyinet.networks.base import HarsanyiNet, check_present, full_precision
from harsanyinet.networks.blocks import SoftAnd
from harsanyinet.networks.draws import from_seed, normal
from harsanyinet.networks.structure import Connect, Structure

Children = Literal["location", "group"]


class _Sides(NamedTuple):
    """The shares of receptive fields that are rectangles: products of a share of rows and one of columns."""

    rows: Tensor  # (G, h, H)
    columns: Tensor  # (G, w, W)
    alone: list[bool]  # (G,) whether a unit sees its own cell only


class HarsanyiCNN(HarsanyiNet):
    """A convolutional Harsanyi network: exact Shapley values of the cells of z0 from the forward pass.

    Players are numbered row by row: ``ex.values.reshape(B, H, W, K)`` is the map of each class.

    Args:
        in_channels: Channels of the images.
        image_size: Height and width, or one number for both.
        n_outputs: K.
        channels: Channels of every block, and of z0 under a named stem; or one number per block, the first for z0 too.
        n_blocks: Number of blocks.
        gate: `"activation"`, the paper's block, or `"presence"`.
        beta: Steepness of the straight-through gradient of the children.
        gamma: Sharpness of the AND gate (activation gate).
        stem: `"paper"` (the default), `"patch"`, `"deep"`, `"map"` (see `conv_blocks.make_stem`), or any module whose
            output is a map.
        seed: Of the first weights and children.
        patch: Height and width of a patch under the patch stem.
        children: Per `"location"` (always in the activation gate) or per `"group"` of channels (presence gate).
        groups: Groups of channels.
        strides: One number per block, 2 where the map is to become half as fine (children per group); by default 1.
        learn_children: Whether children are trained; always where they are chosen per location.
        soft_and: `"geometric"` or `"product"` (activation gate).
        tau_gradient: `"formula"`, as in the paper, or `"code"`, as in the authors' code, where beta does not act on the
            AND's own selection (activation gate, training only).
        gate_floor: A gate up to this is zero; 1e-3 in the authors' code (activation gate).
        readout: `"cell"`: every cell has weights of its own; `"shared"`: all cells of a block have the same.
        rank: Cell readouts map a block to so many values first, as in the paper; None for a full matrix.
        output_bias: Whether v(empty) is a trained constant; by default in the presence gate only.

    Shape:
        - x: (B, in_channels, H, W); present: (P,) or (B, P) bool; output: (B, n_outputs).

    Examples:
        >>> net = HarsanyiCNN(1, 8, 3, channels=4, n_blocks=2, gate="presence").eval()
        >>> net.explain(torch.rand(2, 1, 8, 8)).values.reshape(2, 4, 4, 3).shape
        (2, 4, 4, 3)
    """

    _sides: tuple[Structure, list[_Sides | None]] | None = None

    def __init__(
        self,
        in_channels: int,
        image_size: int | tuple[int, int],
        n_outputs: int,
        *,
        channels: int | Sequence[int] = 32,
        n_blocks: int = 4,
        gate: Gate = "activation",
        beta: float = 100.0,
        gamma: float = 0.05,
        stem: StemName | nn.Module | None = None,
        seed: int = 0,
        patch: int = 2,
        children: Children | None = None,
        groups: int = 1,
        strides: Sequence[int] | None = None,
        learn_children: bool = False,
        soft_and: SoftAnd = "geometric",
        tau_gradient: TauGradient = "formula",
        gate_floor: float = 0.0,
        readout: Literal["cell", "shared"] = "cell",
        rank: int | None = 16,
        output_bias: bool | None = None,
    ) -> None:
        super().__init__()
        if np.shape(image_size) not in ((), (2,)):
            raise ValueError(f"image_size must be one number, or height and width, however: image_size={image_size}")
        pair = np.broadcast_to(np.asarray(image_size), 2).tolist()
        size = (index(pair[0]), index(pair[1]))
        _check(in_channels=in_channels, n_outputs=n_outputs, n_blocks=n_blocks, groups=groups)
        in_channels, n_outputs, n_blocks, groups, seed, patch = map(
            index, (in_channels, n_outputs, n_blocks, groups, seed, patch)
        )
        if np.ndim(channels) == 0:
            channels = index(channels)  # type: ignore[arg-type]
        widths = [channels] * n_blocks if isinstance(channels, int) else list(map(index, channels))
        steps = [1] * n_blocks if strides is None else list(map(index, strides))
        for name, given in (("channels", widths), ("strides", steps)):
            if len(given) != n_blocks:
                raise ValueError(f"{name} must hold one number for each of the {n_blocks} blocks, however: {given}")
            _check(**{name: min(given)})
        _check(height=size[0], width=size[1], patch=patch, **({} if rank is None else {"rank": rank}))
        children = children or ("location" if gate == "activation" else "group")
        for name, value, allowed in (
            ("gate", gate, ("activation", "presence")),
            ("children", children, ("location", "group")),
            ("soft_and", soft_and, ("geometric", "product")),
            ("tau_gradient", tau_gradient, ("formula", "code")),
            ("readout", readout, ("cell", "shared")),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, however: {name}={value!r}")
        if gate == "activation" and children == "group":
            raise ValueError("children='group' belongs to the presence gate, however: gate='activation'")
        if children == "location" and groups > 1:
            raise ValueError(f"groups belong to children='group', however: groups={groups} with children='location'")
        if any(width % groups for width in widths):
            raise ValueError(f"channels must be a multiple of groups, however: channels={channels}, groups={groups}")
        if max(steps) > (2 if children == "group" else 1):
            raise ValueError(
                f"strides must be 1, or 2 where children are chosen per group, however: strides={steps} with "
                f"children={children!r}"
            )
        if stem == "patch" and any(length % patch for length in size):
            raise ValueError(
                f"patch must divide the height and width of the images, however: patch={patch}, {size[0]} x {size[1]}"
            )
        beta, gamma = float(beta), float(gamma)
        for name, positive in (("beta", beta), ("gamma", gamma)):
            if not (math.isfinite(positive) and positive > 0):
                raise ValueError(f"{name} must be positive and finite, however: {name}={positive}")
        gate_floor = float(gate_floor)
        if not 0 <= gate_floor < 1:
            raise ValueError(f"gate_floor must lie in [0, 1), however: gate_floor={gate_floor}")
        self.in_channels, self.image_size, self.n_outputs, self.gate = in_channels, (size[0], size[1]), n_outputs, gate
        generator = from_seed(seed)
        named = "paper" if stem is None else stem
        self.stem = make_stem(named, in_channels, widths[0], generator, patch) if isinstance(named, str) else named
        self.config: dict[str, Any] = {
            "in_channels": in_channels, "image_size": list(size), "n_outputs": n_outputs,
            "channels": channels if isinstance(channels, int) else widths, "strides": steps,
            "n_blocks": n_blocks, "gate": gate, "beta": beta, "gamma": gamma, "seed": seed, "patch": patch,
            "stem": named if isinstance(named, str) else None, "children": children, "groups": groups,
            "learn_children": learn_children, "soft_and": soft_and, "tau_gradient": tau_gradient,
            "gate_floor": gate_floor, "readout": readout, "rank": rank,
            "output_bias": gate == "presence" if output_bias is None else output_bias,
        }  # fmt: skip
        if not isinstance(named, str):
            self.unstorable = f"its stem is a {type(named).__name__}; use stem='paper', 'patch', 'deep' or 'map'"
        c_in, self.cells = self._look_through_the_stem()
        self.n_players = self.cells[0] * self.cells[1]
        blocks: list[nn.Module] = []
        for level in range(n_blocks):
            c_below = c_in if level == 0 else widths[level - 1]
            if children == "location":
                options: dict[str, Any] = {"size": self.cells, "gate": gate, "gamma": gamma, "mode": soft_and}
                options |= {"tau_gradient": tau_gradient, "gate_floor": gate_floor}
                kind: type[nn.Module] = LocationBlock
            else:
                options = {"groups": groups, "first": level == 0, "stride": steps[level], "learned": learn_children}
                kind = GroupBlock
            blocks.append(kind(c_below, widths[level], beta=beta, generator=generator, **options))
        self.blocks = nn.ModuleList(blocks)
        inner = n_outputs if rank is None or readout == "shared" else rank
        self.reading = nn.ParameterList()
        for width, n_places in zip(widths, map(math.prod, self._sizes()), strict=True):
            wide = width if readout == "shared" else n_places * width
            spread = 0.2 / math.sqrt(width) / (1 if readout == "cell" else math.sqrt(n_places))
            self.reading.append(nn.Parameter(spread * normal((inner, wide), generator)))
        self.deciding = None
        if inner != n_outputs or (rank is not None and readout == "cell"):
            self.deciding = nn.Parameter(normal((n_outputs, inner), generator) / math.sqrt(inner))
        if self.config["output_bias"]:
            self.base = nn.Parameter(torch.zeros(n_outputs))
        else:
            self.register_buffer("base", torch.zeros(n_outputs))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster steps on a CPU

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

    def _sizes(self) -> list[tuple[int, int]]:
        """Height and width of the map of each block."""
        (height, width), found = self.cells, []
        for step in self.config["strides"]:
            height, width = -(-height // step), -(-width // step)
            found.append((height, width))
        return found

    @property
    def readouts(self) -> list[Tensor]:  # type: ignore[override]
        """One (K, U, C) tensor per block: what is trained, over the root of the number of places.

        Adam moves every weight by as much, and an output is a sum over thousands of places and channels.
        """
        found = []
        for weight, n_places in zip(self.reading, map(math.prod, self._sizes()), strict=True):
            n_units = n_places * self.config["groups"]
            if self.config["readout"] == "shared":
                each = (weight / math.sqrt(n_places)).view(self.n_outputs, 1, self.config["groups"], -1)
                found.append(each.expand(-1, n_places, -1, -1).reshape(self.n_outputs, n_units, -1))
            else:
                scale = math.sqrt(n_places)
                whole = weight / scale if self.deciding is None else (self.deciding / scale) @ weight
                found.append(whole.view(self.n_outputs, n_units, -1))
        return found

    def _widest(self) -> int:
        places = self.n_players if self.config["readout"] == "shared" else 1
        return max(int(weight.shape[1]) for weight in self.reading) * places

    @property
    def connect(self) -> Connect:
        """Blocks read the previous one."""
        return "previous"

    @property
    def exact_in_training(self) -> bool:
        """False with batch normalisation or dropout."""
        uncertain = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
        return not any(isinstance(module, uncertain) for module in self.modules())

    @property
    def pixels_per_cell(self) -> tuple[int, int]:
        """Height and width of the window of pixels behind a player, at most."""
        return pixels_per_cell(self.stem, self.in_channels, self.image_size)

    def neighbour_masks(self) -> list[Tensor]:
        """The children of every block among the nine neighbours, (cells, 9) or (groups, 9) bool."""
        return [block.child_mask() for block in self.blocks]  # type: ignore[operator]

    def child_masks(self) -> list[Tensor]:
        """The children of every unit among those of the block below, or among the cells, (U, D) bool."""
        found, size = [], self.cells
        for level, (chosen, step) in enumerate(zip(self.neighbour_masks(), self.config["strides"], strict=True)):
            where, valid = _places(size, step, chosen.device)
            n_below, size = math.prod(size), self._sizes()[level]
            groups = self.config["groups"]
            taken = (chosen[None] if self.config["children"] == "group" else chosen[:, None]) & valid[:, None]
            mask = taken.new_zeros(len(where), groups, n_below, groups if level else 1)
            for group in range(groups):
                own = mask[:, group, :, group if level else 0]  # a group reads its own group below
                for k in range(9):
                    own[torch.arange(len(where)), where[:, k]] |= taken[:, group, k]
            found.append(mask.flatten(2).flatten(0, 1))
        return found

    def player_map(self) -> Tensor:
        """Every cell of z0 is a player."""
        return torch.eye(self.n_players, device=self.base.device) > 0

    def shown(self, x: Tensor) -> NDArray[Any] | None:
        """A cell is not one number."""
        return None

    def structure(self) -> Structure:
        """Receptive fields by recursion over the children inside the image; kept until the children change."""
        children = self.neighbour_masks()
        if self._structure is None or not self._structure.fits(children):
            per_group = self.config["children"] == "group"
            fields = grown_fields(children, self.cells, self.config["strides"], per_group)
            self._structure = Structure(tuple(children), tuple(fields))
        return self._structure

    def _spreader(self, readouts: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], Tensor]:
        """Along rows and columns in turn where all receptive fields are rectangles, H + W in place of H W products."""
        structure, dtype = self.structure(), readouts[0].dtype
        if self._sides is None or self._sides[0] is not structure:
            fields = zip(structure.fields, self._sizes(), strict=True)
            self._sides = structure, [_sides(field, self.cells, size) for field, size in fields]
        sides = [(rows.to(dtype), columns.to(dtype), alone) for rows, columns, alone in filter(None, self._sides[1])]
        if len(sides) < len(readouts) or any(readout.shape[2] == 1 for readout in readouts):
            return super()._spreader(readouts)

        def spread(units: Sequence[Tensor]) -> Tensor:
            total: Tensor | None = None
            for z, (rows, columns, alone) in zip(units, sides, strict=True):  # z: (U, K, B)
                each = z.view(rows.shape[1], columns.shape[1], len(rows), -1)  # (h, w, G, K B)
                for group in range(len(rows)):  # one by one, which spares a copy
                    if alone[group] and total is not None:
                        total.view(*each.shape[:2], -1).add_(each[:, :, group])
                        continue
                    wide = columns[group].T @ each[:, :, group]  # (h, W, K B)
                    part = rows[group].T @ wide.view(len(wide), -1)  # (H, W K B)
                    total = part if total is None else total.add_(part)
            assert total is not None
            return total.view(self.n_players, *units[0].shape[1:]).permute(2, 1, 0)

        return spread

    def units(self, x: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """(B, U, C) per block: cells row by row and, within a cell, groups of channels."""
        x = self._checked(x)
        there = None
        if present is not None:
            there = check_present(present, len(x), self.n_players).view(-1, *self.cells)
        return self.units_of_map(self.stem(x), there)

    def units_of_map(self, z0: Tensor, present: Tensor | None = None) -> list[Tensor]:
        """The same from the stem's map (B, C, H, W) and the presence of its cells (B, H, W)."""
        found = []
        if self.config["children"] == "location":
            z = z0.permute(0, 2, 3, 1).contiguous()
            if present is not None:
                z = torch.where(present[..., None], z, 0.0)
            alive = present if self.gate == "presence" else None
            for block in self.blocks:
                z, alive = block(z, alive)
                found.append(z.flatten(1, 2))
            return found
        alive = None if present is None else present[:, None]
        z = z0.contiguous(memory_format=torch.channels_last)
        if alive is not None:
            z = torch.where(alive, z, 0.0)
        for block in self.blocks:
            z, alive = block(z, alive)
            n_units = z.shape[2] * z.shape[3] * self.config["groups"]
            found.append(z.permute(0, 2, 3, 1).reshape(len(z), n_units, z.shape[1] // self.config["groups"]))
        return found

    def game(self, x: Tensor, row: int = 0) -> Callable[[NDArray[np.bool_]], NDArray[Any]]:
        """The game that `explain` solves for one image, played by real passes from z0 on: masks (m, P) -> (m, K)."""
        self._check_mode()
        if not 0 <= row < len(x):
            raise IndexError(f"row must lie between 0 and {len(x) - 1}, however: row={row}")
        with torch.no_grad(), full_precision(x):
            z0 = self.stem(self._checked(x[row : row + 1]))

        def play(masks: NDArray[np.bool_]) -> NDArray[Any]:
            present = torch.from_numpy(np.ascontiguousarray(masks)).to(z0.device)
            there = check_present(present, len(masks), self.n_players).view(-1, *self.cells)
            with torch.no_grad(), full_precision(z0):
                parts = [
                    self._read(self.units_of_map(z0.expand(len(some), -1, -1, -1), some)).cpu()
                    for some in torch.split(there, 256)
                ]
            return np.asarray(torch.cat(parts).numpy())

        return play

    def _checked(self, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor):
            raise TypeError(f"x must be a torch tensor, however: {type(x).__name__}; use torch.as_tensor(x)")
        wanted = (self.in_channels, *self.image_size)
        if x.ndim != 4 or tuple(x.shape[1:]) != wanted:
            raise ValueError(f"x must have shape (images, {', '.join(map(str, wanted))}), however: {tuple(x.shape)}")
        dtype = self.base.dtype
        if x.dtype != dtype:
            raise TypeError(
                f"x must have the network's dtype {dtype}, however: {x.dtype}; convert x with .to(dtype) or the "
                "network with .float() or .double()"
            )
        if not torch.compiler.is_compiling() and x.numel() and not bool(torch.isfinite(x.detach().sum())):
            raise ValueError("x must be finite, however: some pixel is NaN or infinite")
        return x

    def extra_repr(self) -> str:
        """The settings that differ between networks."""
        shown = ("in_channels", "image_size", "n_outputs", "channels", "n_blocks", "gate", "children", "groups")
        return ", ".join(f"{key}={self.config[key]!r}" for key in shown)


def _places(size: tuple[int, int], step: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Which cells of a map are the neighbours of each place of the next one, (places, 9), and whether they exist."""
    number = torch.arange(math.prod(size), dtype=torch.float64, device=device).view(1, *size, 1)
    where = neighbours(number)[0, ::step, ::step, :, 0].long()
    return where.reshape(-1, 9), inside(*size)[::step, ::step].reshape(-1, 9).to(device)


def grown_fields(
    children: Sequence[Tensor], cells: tuple[int, int], strides: Sequence[int], per_group: bool
) -> list[Tensor]:
    """Receptive fields (U, P) of every block, by recursion over the children that lie in the image.

    Args:
        children: Per block (P, 9), those of each location, or (G, 9), those of each group of channels.
        cells: Height and width of z0.
        strides: Of every block.
        per_group: Which of the two.
    """
    h, w = cells
    device = children[0].device
    fields: list[Tensor] = []
    below = torch.eye(h * w, device=device, dtype=torch.bool)[:, None]  # (P, 1, P): places, groups, players
    for chosen, step in zip(children, strides, strict=True):
        where, valid = _places((h, w), step, device)
        h, w = -(-h // step), -(-w // step)
        taken = (chosen[None] if per_group else chosen[:, None]) & valid[:, None]  # (places, G, 9)
        field = torch.zeros(h * w, taken.shape[1], below.shape[2], dtype=torch.bool, device=device)
        for k in range(9):
            field |= taken[:, :, k, None] & below[where[:, k]]
        fields.append(field.flatten(0, 1))
        below = field
    return fields


def _sides(field: Tensor, cells: tuple[int, int], size: tuple[int, int]) -> _Sides | None:
    """The sides of receptive fields (U, P); None where one is no rectangle, or its rows depend on its unit's column."""
    whole = field.view(*size, -1, *cells)  # (h, w, G, H, W)
    rows, columns = whole.any(4)[:, 0].transpose(0, 1), whole.any(3)[0].transpose(0, 1)
    if not torch.equal(whole, (rows[:, :, None, :, None] & columns[:, None, :, None]).permute(1, 2, 0, 3, 4)):
        return None
    alone = [size == cells and bool(each.all()) for each in (whole.sum((3, 4)) == 1).unbind(2)]
    rows, columns = rows.double(), columns.double()
    shares = [side / side.sum(2, keepdim=True).clamp_min(1) for side in (rows, columns)]  # no children, no share
    return _Sides(shares[0], shares[1], alone)


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if index(count) < 1:
            raise ValueError(f"{name} must be at least 1, however: {name}={count}")
