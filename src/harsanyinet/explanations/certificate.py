"""Certificates: does a model's explanation hold for its own forward pass? Asks `games`, trusts nothing.

A check of sums proves nothing: values can add up and be wrong. Here every claim is compared with real forward passes
on masked rows, and the certificate says which of them are proved for the rows it saw and which are sampled.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harsanyinet import games
from harsanyinet.explanations.explanation import Explanation
from harsanyinet.explanations.indices import inside
from harsanyinet.progress import bar

if TYPE_CHECKING:
    import torch

FULL_PLAYERS = 16
SUB_PLAYERS = 12
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


class Explainable(Protocol):
    """What can be certified: a model that explains rows and can play the game of each of them.

    Its structure is its own, as in a network, that of its `network_`, or its `trees_`, as in an estimator.
    """

    def explain(self, x: Any, /) -> Explanation:
        """Explains rows."""

    def game(self, x: Any, row: int, /) -> Callable[[NDArray[np.bool_]], NDArray[Any]]:
        """The real forward pass of one row as a function of masks: (m,) or (m, K)."""


class Wiring(Protocol):
    """Which units of a network read which: the part of `HarsanyiNet` that a certificate recomputes."""

    def child_masks(self) -> Sequence[torch.Tensor]:
        """The children of each block's units, (U_l, D_l) bool: which inputs or units below they read."""

    def player_map(self) -> torch.Tensor:
        """The player of each input, (D_1, P) bool."""

    def receptive_fields(self) -> Sequence[torch.Tensor]:
        """The players that each block's units depend on, (U_l, P) bool."""


@dataclass(frozen=True)
class Check:
    """One line of a certificate."""

    name: str
    passed: bool
    scope: str
    """`proved` (all cases were tried), or `sampled`."""
    cases: str
    error: float | None = None
    """Worst error relative to the range of its output over the masks; None for a structural check."""


@dataclass(frozen=True)
class Certificate:
    """The outcome of `verify`."""

    passed: bool
    checks: tuple[Check, ...]
    n_rows: int
    n_players: int
    n_outputs: int
    n_units: tuple[int, ...]
    n_dead_units: int
    n_coalitions: int
    largest_output: float
    worst_error: float
    """The worst error of all, relative to the largest |output|."""
    tolerance: float
    order_spectrum: tuple[float, ...]
    versions: dict[str, str]

    def to_json(self) -> str:
        """The certificate as JSON."""
        return json.dumps(_finite(asdict(self)), indent=2, allow_nan=False)

    def __str__(self) -> str:
        lines = [
            f"{'PASSED' if self.passed else 'FAILED'}: {self.n_rows} rows, {self.n_players} players, "
            f"{self.n_outputs} outputs; {' + '.join(map(str, self.n_units))} units ({self.n_dead_units} without an "
            f"input), {self.n_coalitions} coalitions",
            f"worst error {self.worst_error:.1e} of the largest |output| {self.largest_output:.4g}; below, errors are "
            f"relative to the range of their output over the masks, tolerance {self.tolerance:g}",
            "",
        ]
        width = max(len(check.name) for check in self.checks)
        for check in self.checks:
            error = "" if check.error is None else f"{check.error:.1e}"
            verdict = "ok" if check.passed else "FAILS"
            lines.append(f"  {verdict:<6}{check.name:<{width}}  {error:>8}  {check.scope}: {check.cases}")
        shares = ", ".join(f"{o}: {100 * s:.1f} %" for o, s in enumerate(self.order_spectrum) if s >= 5e-4)
        return "\n".join([*lines, "", f"order spectrum: {shares}"])


def verify(
    model: Explainable,
    x: Any,
    *,
    max_rows: int = 10,
    n_masks: int = 1000,
    n_subgames: int = 5,
    seed: int = 0,
    tolerance: float | None = None,
    progress: bool = True,
) -> Certificate:
    """Certifies a model on some rows.

    With at most 16 players every mask is tried, which proves the values of these rows. Above that, random masks and
    random sub-games of 12 players (all others present) are tried. Receptive fields are recomputed from the
    children, member by member, in either case.

    Args:
        model: A `HarsanyiNet` in evaluation mode, a fitted estimator, or anything with their methods.
        x: Rows, as the model's `explain` takes them.
        max_rows: How many of the rows are tried, from the first on.
        n_masks: Random masks per row, above 16 players.
        n_subgames: Random sub-games per row, above 16 players.
        seed: Of the masks and sub-games.
        tolerance: Largest error admitted, relative to the range of an output over the masks, besides the rounding of
            its size; 1e-12 in float64 and 1e-5 in float32.
        progress: Shows a bar when it lasts longer than two seconds.
    """
    if not len(x) or max_rows < 1:
        raise ValueError(f"a certificate needs at least one row, however: {len(x)} rows, max_rows={max_rows}")
    x = x[:max_rows]
    ex = model.explain(x)
    tried = _Tried.nothing(ex, n_masks, n_subgames)
    rng = np.random.default_rng(seed)
    for row in bar("certifying rows", None, progress=progress, iterable=range(len(x))):
        tried.add_row(ex[row], model.game(x, row), rng)
    usual = TOLERANCE[str(ex.values.dtype)]
    tolerance = usual if tolerance is None else tolerance
    rounding = 8 * float(np.finfo(ex.values.dtype).eps) / usual
    fields, structural = _of_trees(model.trees_, ex) if hasattr(model, "trees_") else _of_units(model, ex)
    checks = (*structural, *tried.checks(tolerance, rounding))
    return Certificate(
        passed=all(check.passed for check in checks),
        checks=checks,
        n_rows=len(x),
        n_players=ex.n_features,
        n_outputs=len(ex.output_names),
        n_units=tuple(len(field) for field in fields),
        n_dead_units=int(sum((~field.any(1)).sum() for field in fields)),
        n_coalitions=len(ex.coalitions),
        largest_output=float(tried.largest.max()),
        worst_error=tried.error_of_output(),
        tolerance=tolerance,
        order_spectrum=tuple(ex.order_spectrum().tolist()),
        versions=versions(),
    )


# What the values claim -----------------------------------------------------------------------------------------------


@dataclass
class _Tried:
    """Claims of an explanation beside real forward passes, row by row; what is kept is the worst error.

    Attributes:
        n_rows: Rows to be tried.
        n_players: P.
        n_outputs: K.
        n_masks: Random masks per row, where there are too many players for all.
        n_subgames: Random sub-games per row, likewise.
        errors: The largest error of each claim, (K,) each.
        largest: (K,) the largest |v(S)|.
        span: (K,) the largest |v(S) - v(empty)|.
    """

    n_rows: int
    n_players: int
    n_outputs: int
    n_masks: int
    n_subgames: int
    errors: dict[str, NDArray[Any]]
    largest: NDArray[Any]
    span: NDArray[Any]

    @classmethod
    def nothing(cls, ex: Explanation, n_masks: int, n_subgames: int) -> _Tried:
        """Before the first row."""
        k = len(ex.output_names)
        errors = {claim: np.zeros(k) for claim in ("value", "shapley", "efficiency", "base")}
        return cls(len(ex), ex.n_features, k, n_masks, n_subgames, errors, np.zeros(k), np.zeros(k))

    @property
    def full(self) -> bool:
        """Whether there are so few players that every mask is tried."""
        return self.n_players <= FULL_PLAYERS

    def add_row(self, one: Explanation, game: games.Game, rng: np.random.Generator) -> None:
        """Compares all claims about one row with its game."""
        n, k = self.n_players, self.n_outputs
        values = one.values.reshape(n, k)
        if self.full:
            masks = games.all_masks(n)
            table = games.evaluate(game, n, progress=False).reshape(len(masks), k)
            _note(self.errors["shapley"], values, games.shapley_of_table(table))
        else:
            random = rng.random((self.n_masks, n)) < rng.random((self.n_masks, 1))
            masks = np.vstack([np.zeros((1, n), dtype=bool), random, np.ones((1, n), dtype=bool)])
            table = np.asarray(game(masks), dtype=np.float64).reshape(len(masks), k)
            self._add_subgames(one, game, rng)
        self.largest = np.maximum(self.largest, np.abs(table).max(axis=0))
        self.span = np.maximum(self.span, np.abs(table - table[0]).max(axis=0))
        _note(self.errors["value"], _values(one, masks), table)
        _note(self.errors["base"], one.base_values.reshape(1, k), table[:1])
        _note(self.errors["efficiency"], values.sum(axis=0)[None], table[-1:] - table[:1])

    def _add_subgames(self, one: Explanation, game: games.Game, rng: np.random.Generator) -> None:
        """Shapley values of a few players, all others present, by brute force."""
        for _ in range(self.n_subgames):
            players = rng.choice(self.n_players, SUB_PLAYERS, replace=False)
            alone = games.sub_game(game, players, self.n_players)
            truth = games.brute_force_shapley(alone, SUB_PLAYERS, progress=False)
            claimed = one.restrict(players.tolist()).values.reshape(SUB_PLAYERS, self.n_outputs)
            _note(self.errors["shapley"], claimed, truth.reshape(SUB_PLAYERS, self.n_outputs))

    def error_of_output(self) -> float:
        """The worst error of all, relative to the largest |output|."""
        return max(float(error.max()) for error in self.errors.values()) / (float(self.largest.max()) or 1.0)

    def checks(self, tolerance: float, rounding: float) -> list[Check]:
        """The lines of a certificate.

        Args:
            tolerance: Largest error admitted, relative to the range of an output over the masks.
            rounding: How much of the size of an output counts as its range: the rounding of its number type.
        """
        scale = self.span + self.largest * rounding + np.finfo(float).tiny
        scope = "proved" if self.full else "sampled"
        rows = f"{self.n_rows} rows"
        masks = (
            f"all {2**self.n_players:,} masks of {rows}" if self.full else f"{self.n_masks:,} random masks of {rows}"
        )
        sub_games = f"{self.n_subgames} random sub-games of {SUB_PLAYERS} players, {rows}"
        lines = (
            ("v(S) from the dividends = masked forward pass", "value", scope, masks),
            ("Shapley values = brute force", "shapley", scope, masks if self.full else sub_games),
            ("sum of values = v(x) - v(empty)", "efficiency", "proved", rows),
            ("base value = v(empty)", "base", "proved", rows),
        )
        worst = {claim: float(np.max(error / scale)) for claim, error in self.errors.items()}
        return [Check(name, worst[claim] <= tolerance, kind, cases, worst[claim]) for name, claim, kind, cases in lines]


def _finite(item: Any) -> Any:
    """JSON knows no infinity: it becomes text."""
    if isinstance(item, dict):
        return {key: _finite(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_finite(value) for value in item]
    return str(item) if isinstance(item, float) and not np.isfinite(item) else item


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    from harsanyinet import __version__

    known = {"harsanyinet": __version__, "numpy": np.__version__, "python": platform.python_version()}
    for name in ("torch", "numba"):
        with suppress(metadata.PackageNotFoundError):
            known[name] = metadata.version(name)
    return known


def _values(one: Explanation, masks: NDArray[np.bool_]) -> NDArray[Any]:
    """v(S) of one row, for many masks at once, (m, K): the sum of the dividends inside S, and of no other source."""
    dividends = one.dividends.reshape(len(one.coalitions), len(one.output_names))
    size = max(1, 10_000_000 // max(1, len(dividends)))
    parts = [inside(one.coalitions, masks[start : start + size]) for start in range(0, len(masks), size)]
    return np.concatenate([one.base_values.reshape(1, -1) + part.astype(dividends.dtype) @ dividends for part in parts])


def _of_units(model: Any, ex: Explanation) -> tuple[list[NDArray[np.bool_]], list[Check]]:
    """Receptive fields of a network, and whether they are what its children and the coalitions say."""
    wiring: Wiring = getattr(model, "network_", model)
    fields = [f.cpu().numpy() for f in wiring.receptive_fields()]
    recomputed = _fields_by_sets(wiring)
    return fields, [
        Check("receptive fields follow from the children", _same(fields, recomputed), "proved", "every unit"),
        Check("coalitions are the receptive fields", _covers(ex, recomputed), "proved", "every unit"),
    ]


def _of_trees(trees: Any, ex: Explanation) -> tuple[list[NDArray[np.bool_]], list[Check]]:
    """Players of trees, and whether they are what the questions ask about and the coalitions say."""
    field = np.zeros((len(trees), ex.n_features), dtype=bool)
    declared = True
    for t, shape in enumerate(trees.shapes):
        asked = {int(trees.player_of[column]) for column in shape.columns}
        declared &= asked == set(shape.players.tolist())
        field[t, sorted(asked)] = True
    whole = {tuple(np.flatnonzero(line).tolist()) for line in field}
    subsets = {part for players in whole for size in range(1, len(players) + 1) for part in combinations(players, size)}
    claimed = {tuple(np.flatnonzero(line).tolist()) for line in ex.coalitions}
    return [field], [
        Check("players of the trees follow from their questions", declared, "proved", "every tree"),
        Check("coalitions are sets of players of one tree", claimed == subsets, "proved", "every tree"),
    ]


def _fields_by_sets(model: Wiring) -> list[NDArray[np.bool_]]:
    """Receptive fields by unions of Python sets, apart from the matrix products of `networks.structure`."""
    players = [set(np.flatnonzero(line).tolist()) for line in model.player_map().cpu().numpy()]
    n = model.player_map().shape[1]
    blocks: list[list[set[int]]] = []
    for children in model.child_masks():
        candidates = players if not blocks else blocks[-1]
        if blocks and children.shape[1] != len(candidates):  # children in all blocks below
            candidates = [field for block in blocks for field in block]
        lines = children.cpu().numpy()
        blocks.append([set().union(*(candidates[c] for c in np.flatnonzero(line))) for line in lines])
    return [np.array([[i in field for i in range(n)] for field in block]) for block in blocks]


def _same(a: list[NDArray[np.bool_]], b: list[NDArray[np.bool_]]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _covers(ex: Explanation, fields: list[NDArray[np.bool_]]) -> bool:
    needed = {line.tobytes() for field in fields for line in field if line.any()}
    return needed == {line.tobytes() for line in ex.coalitions}


def _note(worst: NDArray[Any], claimed: NDArray[Any], truth: NDArray[Any]) -> None:
    """Keeps the largest error of each output, (K,), in `worst`; what is not a number is an infinite error."""
    error = np.abs(np.asarray(claimed, dtype=np.float64) - truth).max(axis=0)
    np.maximum(worst, np.where(np.isfinite(error), error, np.inf), out=worst)
