"""Layers that hand on Shapley values: the Shapley transform, and the small functions that it is taken of.

A Shapley module is a small function f of at most k players. It is evaluated on all 2^k mixtures of the players' values
and their references, and a fixed matrix turns the outputs into one vector per player: the Shapley values of f. A layer
adds up the vectors of many modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Generator, Tensor, nn

from harsanyinet.games import all_masks, shapley_of_table

Sets = Sequence[Sequence[int]]


@cache
def shapley_matrix(k: int) -> Tensor:
    """The matrix (k, 2^k), float64, from the values of a game on all coalitions to its Shapley values.

    Player i is in the coalition of column c if bit i of c is set. Row i has w(s - 1) at the coalitions of size s with
    player i, and -w(s) at those without, where w(s) = s! (k - s - 1)! / k!.

    Examples:
        >>> shapley_matrix(2).tolist()
        [[-0.5, 0.5, -0.5, 0.5], [-0.5, -0.5, 0.5, 0.5]]
    """
    return torch.from_numpy(shapley_of_table(np.eye(2**k)))  # the values are linear in the game


def coalition_matrix(k: int) -> Tensor:
    """All coalitions of `k` players, (2^k, k) float64 of zeros and ones, in the order of `shapley_matrix`."""
    return torch.tensor(all_masks(k), dtype=torch.float64)


def shapley_transform(outputs: Tensor) -> Tensor:
    """Shapley values of functions that were evaluated on all coalitions of their k players.

    The matrix is cast to the outputs at each call; a buffer would be rounded by `.float()` for good.

    Shape:
        - outputs: (..., 2^k, C), in the order of `coalition_matrix`; returns (..., k, C).
    """
    return shapley_matrix(outputs.shape[-2].bit_length() - 1).to(outputs) @ outputs


def uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """First weights, between -1 and 1."""
    return torch.rand(shape, generator=generator) * 2 - 1


class ShapleyModules(nn.Module):
    """M multilayer perceptrons with ReLU, each on its own set of s players, evaluated together.

    The first linear map is taken once per player, not once per coalition: its value at a mixture is its value at the
    reference plus the contributions of the players present. Arguments as in `ShapleyLayer`, but sets (M, s).
    """

    def __init__(
        self, sets: Tensor, d_in: int, d_out: int, *, hidden: Sequence[int], constants: bool, generator: Generator
    ) -> None:
        super().__init__()
        self.register_buffer("sets", sets)
        self.sets: Tensor
        self.widths = (d_in, *hidden, d_out)
        n_modules, size = sets.shape
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for step, (below, above) in enumerate(pairwise(self.widths)):
            shape = (n_modules, size, below, above) if step == 0 else (n_modules, below, above)
            bound = 1 / (size * below if step == 0 else below) ** 0.5
            self.weights.append(nn.Parameter(uniform(shape, generator) * bound))
            if constants or step < len(hidden):  # flat, so that weight decay leaves biases alone
                self.biases.append(nn.Parameter(uniform((n_modules * above,), generator) * bound))

    def forward(self, deltas: Tensor, reference: Tensor | None) -> Tensor:
        """Shapley values of all modules: (N, B, C) of N players and (N, C) -> (M, s, B, C')."""
        n_modules, size = self.sets.shape
        n_rows = deltas.shape[1]
        parts = deltas[self.sets] @ self.weights[0]  # (M, s, B, H), the contribution of each player
        coalitions = coalition_matrix(size).to(parts)  # (2^s, s)
        mixed = torch.matmul(coalitions, parts.flatten(2)).view(n_modules, 2**size * n_rows, self.widths[1])
        outputs = self._after_first_(mixed.add_(self._at_reference(reference)))  # (M, 2^s * B, C')
        values = shapley_transform(outputs.view(n_modules, 2**size, n_rows * self.widths[-1]))
        return values.view(n_modules, size, n_rows, self.widths[-1])

    def totals(self, deltas: Tensor, reference: Tensor | None) -> Tensor:
        """The sum of f(x) over all modules, without the other coalitions: (N, B, C) -> (B, C')."""
        parts = deltas[self.sets] @ self.weights[0]  # (M, s, B, H)
        return self._after_first_(parts.sum(1) + self._at_reference(reference)).sum(0)

    def _at_reference(self, reference: Tensor | None) -> Tensor:
        """The first linear map with every player absent, (M, 1, H)."""
        weight = self.weights[0]
        n_modules, _, _, width = weight.shape
        bias = self.biases[0] if len(self.biases) else weight.new_zeros(n_modules * width)
        origin: Tensor = bias.view(n_modules, 1, width)
        if reference is not None:
            origin = origin + reference[self.sets].flatten(1)[:, None] @ weight.flatten(1, 2)
        return origin

    def _after_first_(self, h: Tensor) -> Tensor:
        """What follows the first linear map, (M, R, H) -> (M, R, C'); overwrites h."""
        for step in range(1, len(self.weights)):
            h = torch.bmm(h.relu_(), self.weights[step])  # in place: fresh memory costs more than the arithmetic
            if step < len(self.biases):
                h = h.add_(self.biases[step].view(len(h), 1, -1))
        return h


class ShapleyLayer(nn.Module):
    """Z_i = the sum of phi_i(f_j) over all modules j whose set holds player i. Modules of equal size run together.

    A player has `d_in` channels below and `d_out` above. With `constants` the last linear maps have a bias, which
    cancels in every Shapley value but not in the f_j(r).

    Shape:
        - deltas: (B, N, C), the values below minus their references; reference: (N, C), None for zeros
        - returns (B, N, C')
    """

    def __init__(
        self, sets: Sets, d_in: int, d_out: int, *, hidden: Sequence[int], constants: bool, generator: Generator
    ) -> None:
        super().__init__()
        self.d_out = d_out

        def modules(size: int) -> ShapleyModules:
            equal = torch.tensor([list(members) for members in sets if len(members) == size])
            return ShapleyModules(equal, d_in, d_out, hidden=hidden, constants=constants, generator=generator)

        self.groups = nn.ModuleList(modules(size) for size in sorted({len(members) for members in sets}))

    def forward(self, deltas: Tensor, reference: Tensor | None = None) -> Tensor:  # noqa: D102
        step = self.rows_at_once()
        if not torch.is_grad_enabled() and len(deltas) > step:
            return torch.cat([self(deltas[start : start + step], reference) for start in range(0, len(deltas), step)])
        by_player = deltas.transpose(0, 1)  # (N, B, C)
        total = deltas.new_zeros(len(by_player), len(deltas), self.d_out)
        for group in self._groups():  # one for each size of set
            total = total.index_add(0, group.sets.flatten(), group(by_player, reference).flatten(0, 1))
        return total.transpose(0, 1)

    def totals(self, deltas: Tensor, reference: Tensor | None = None) -> Tensor:
        """The sum of f_j(x) over all modules, (B, C'): that of all values and constants, at a fraction of the cost."""
        by_player = deltas.transpose(0, 1)  # (N, B, C)
        return torch.stack([group.totals(by_player, reference) for group in self._groups()]).sum(0)

    def rows_at_once(self) -> int:
        """Rows whose mixtures take some tens of megabytes; without gradients, nothing is kept from one to the next."""
        numbers = [len(group.sets) * 2 ** group.sets.shape[1] * max(group.widths[1:]) for group in self._groups()]
        return max(1, 2**22 // int(max(numbers)))

    def _groups(self) -> list[ShapleyModules]:
        return [group for group in self.groups if isinstance(group, ShapleyModules)]
