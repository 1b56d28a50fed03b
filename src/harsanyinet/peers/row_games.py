"""Games that estimators play: one that counts its rows, and that of one row of any network. No estimator.

One coalition put through the game is one row. V(S) = v(S) - v(empty) throughout.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harsanyinet.games import Floats, Game, Masks


class CountingGame:
    """A game that counts the rows it plays; itself a game of bool masks.

    Args:
        game: Callable of bool masks (m, n) that returns (m,) or (m, K).
        n_players: n.
        max_rows: Largest number of masks in one call of the game.

    Attributes:
        rows: Rows played so far. The empty and the full coalition are played once.

    Examples:
        >>> game = CountingGame(lambda masks: masks.sum(axis=1), 3)
        >>> game(np.eye(3, dtype=bool)).tolist(), game.rows
        ([1.0, 1.0, 1.0], 3)
    """

    def __init__(self, game: Game, n_players: int, max_rows: int = 8192) -> None:
        self.n_players = whole_number(n_players, "n_players", 1)
        self.max_rows = whole_number(max_rows, "max_rows", 1)
        self.rows = 0
        self._game = game
        self._tail: tuple[int, ...] | None = None  # () or (K,), known after the first call
        self._ends: Floats | None = None

    def __call__(self, masks: Masks) -> Floats:
        """Plays coalitions: bool masks (m, n) -> float64 (m,) or (m, K)."""
        return self.shaped(self.play(masks))

    def play(self, masks: Masks) -> Floats:
        """Plays coalitions in chunks: bool masks (m, n) -> v, (m, K)."""
        masks = np.asarray(masks)
        if masks.dtype != np.bool_ or masks.ndim != 2 or masks.shape[1] != self.n_players:
            raise ValueError(
                f"masks must be bool of shape (m, {self.n_players}), however: {masks.dtype} of shape {masks.shape}"
            )
        starts = range(0, max(len(masks), 1), self.max_rows)
        return np.concatenate([self._chunk(masks[start : start + self.max_rows]) for start in starts])

    def ends(self) -> Floats:
        """v(empty) and v(N), (2, K); played when first asked for."""
        if self._ends is None:
            self._ends = self.play(np.repeat([[False], [True]], self.n_players, axis=1))
        return self._ends

    def total(self) -> Floats:
        """V(N), (K,)."""
        empty, full = self.ends()
        return np.asarray(full - empty)

    def gains(self, masks: Masks) -> Floats:
        """V(S) = v(S) - v(empty), (m, K)."""
        return np.asarray(self.play(masks) - self.ends()[0])

    def shaped(self, values: Floats) -> Floats:
        """(m, K) as the game itself returns it: without the last axis where the game returns (m,)."""
        return values[..., 0] if self._tail == () else values

    def _chunk(self, masks: Masks) -> Floats:
        values: Any = self._game(masks)
        self.rows += len(masks)
        if hasattr(values, "detach"):
            values = values.detach().cpu().double().numpy()
        out = np.array(values, dtype=np.float64)  # a copy: a game may return the same buffer every time
        if out.ndim not in (1, 2) or len(out) != len(masks):
            raise ValueError(
                f"a game must return ({len(masks)},) or ({len(masks)}, K) for {len(masks)} masks, however: {out.shape}"
            )
        tail = out.shape[1:]
        if self._tail not in (None, tail):
            raise ValueError(f"a game must return as many outputs in every call, however: {self._tail}, {tail}")
        self._tail = tail
        if not np.isfinite(out).all():
            raise ValueError(f"a game must return finite values, however: {out[~np.isfinite(out)][0]}")
        return out if out.ndim == 2 else out[:, None]


def counted(game: Game, n_players: int) -> CountingGame:
    """A game as one that counts; one that already does keeps its count and its two ends."""
    if not isinstance(game, CountingGame):
        return CountingGame(game, n_players)
    if game.n_players != n_players:
        raise ValueError(f"n_players must be the {game.n_players} of the game, however: n_players={n_players}")
    return game


def model_game(
    model: nn.Module, x: Tensor, *, baseline: Tensor | None = None, output: int | None = None
) -> Callable[[Masks], NDArray[Any]]:
    """The game of one row of any network, in evaluation mode and without gradients.

    Args:
        model: If its `forward` takes `present`, it gets the masks and says what absence is. In any other network every
            entry of x is a player, and absent entries are set to the baseline.
        x: One row: (D,), or with a first axis of length one, (1, D) or (1, C, H, W).
        baseline: In the shape of x, or one that broadcasts to it; zero by default. Only without `present`.
        output: The output to explain; all of them by default.

    Returns:
        Callable of bool masks (m, n) that returns (m, K), or (m,) for one output.
    """
    row = (x[None] if x.ndim == 1 else x).detach()
    if row.ndim < 2 or len(row) != 1:
        raise ValueError(f"x must be one row, (D,) or with a first axis of length one, however: {tuple(x.shape)}")
    takes_present = "present" in inspect.signature(model.forward).parameters
    if takes_present and baseline is not None:
        raise ValueError("baseline must be None for a network that takes `present`, however: a baseline was given")
    absent = torch.zeros_like(row) if baseline is None else baseline.detach().to(row).broadcast_to(row.shape)
    _check_mode(model)

    def play(masks: Masks) -> NDArray[Any]:
        _check_mode(model)
        present = torch.from_numpy(np.ascontiguousarray(masks)).to(row.device)
        rows = row.expand(len(masks), *row.shape[1:])
        with torch.no_grad():
            if takes_present:
                out = model(rows, present=present)
            elif masks.shape[1] != row.numel():
                raise ValueError(f"masks must have {row.numel()} columns, one per entry of x, however: {masks.shape}")
            else:
                out = model(torch.where(present.view(rows.shape), rows, absent))
        if output is None:
            return np.asarray(out.cpu().numpy())
        if out.ndim != 2 or not 0 <= output < out.shape[1]:
            raise ValueError(f"output must name a column of the network's {tuple(out.shape)}, however: output={output}")
        return np.asarray(out[:, output].cpu().numpy())

    return play


def _check_mode(model: nn.Module) -> None:
    if any(module.training for module in model.modules()):
        raise RuntimeError("a game needs a network in evaluation mode, however: it is in training mode; call .eval()")


def whole_number(number: Any, name: str, least: int, why: str = "") -> int:
    """The number, if it is a whole one and large enough."""
    if not isinstance(number, Integral) or isinstance(number, bool) or int(number) < least:
        raise ValueError(f"{name} must be a whole number of at least {least}{why}, however: {name}={number!r}")
    return int(number)
