"""Certificates: does a model's explanation hold for its own forward pass? Asks `games`, trusts nothing.

A check of sums proves nothing: values can add up and be wrong. Here every claim is compared with real forward passes
on masked rows, and the certificate says which of them are proved for the rows it saw and which are sampled.
"""

from __future__ import annotations

import json
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harsanyinet import games
from harsanyinet.explanations.explanation import Explanation
from harsanyinet.explanations.indices import inside
from harsanyinet.progress import bar

FULL_PLAYERS = 16
SUB_PLAYERS = 12
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


class Explainable(Protocol):
    """What can be certified: a model that explains rows and can play the game of each of them.

    A network has `child_masks()`, `player_map()` and `receptive_fields()`; an estimator has a `network_` or `trees_`.
    """

    def explain(self, x: Any, /) -> Explanation:
        """Explains rows."""

    def game(self, x: Any, row: int, /) -> games.Game:
        """The real forward pass of one row as a function of masks: (m,) or (m, K)."""


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
        strict = json.loads(json.dumps(asdict(self)), parse_constant=lambda word: str(float(word)))  # "inf", "nan"
        return json.dumps(strict, indent=2, allow_nan=False)

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

    With at most 16 players every mask is tried, which proves the values of these rows; above that, random masks and
    random sub-games of 12 players (all others present). Receptive fields are recomputed from the children in any case.

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
    tried = _Tried(ex, n_masks, n_subgames, seed)
    for row in bar("certifying rows", None, progress=progress, iterable=range(len(x))):
        tried.add_row(ex[row], model.game(x, row))
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
        n_units=tuple(map(len, fields)),
        n_dead_units=sum(not unit for field in fields for unit in field),
        n_coalitions=len(ex.coalitions),
        largest_output=float(tried.largest.max()),
        worst_error=max(float(error.max()) for error in tried.errors.values()) / (float(tried.largest.max()) or 1.0),
        tolerance=tolerance,
        order_spectrum=tuple(ex.order_spectrum().tolist()),
        versions=versions(),
    )


class _Tried:
    """Claims of an explanation beside real forward passes, row by row; what is kept is the worst error."""

    def __init__(self, ex: Explanation, n_masks: int, n_subgames: int, seed: int) -> None:
        self.n_rows, self.n_players, self.n_outputs = len(ex), ex.n_features, len(ex.output_names)
        self.n_masks, self.n_subgames = n_masks, n_subgames
        self.rng = np.random.default_rng(seed)
        self.full = self.n_players <= FULL_PLAYERS  # every mask is tried
        self.errors = {claim: np.zeros(self.n_outputs) for claim in ("value", "shapley", "efficiency", "base")}
        self.largest = np.zeros(self.n_outputs)  # |v(S)|
        self.span = np.zeros(self.n_outputs)  # |v(S) - v(empty)|

    def add_row(self, one: Explanation, game: games.Game) -> None:
        """Compares all claims about one row with its game."""
        n, k = self.n_players, self.n_outputs
        values = one.values.reshape(n, k)
        if self.full:
            masks = games.all_masks(n)
            table = games.evaluate(game, n, progress=False).reshape(len(masks), k)
            _note(self.errors["shapley"], values, games.shapley_of_table(table))
        else:
            random = self.rng.random((self.n_masks, n)) < self.rng.random((self.n_masks, 1))
            masks = np.vstack([np.zeros((1, n), dtype=bool), random, np.ones((1, n), dtype=bool)])
            table = np.asarray(game(masks), dtype=np.float64).reshape(len(masks), k)
            for _ in range(self.n_subgames):  # a few players, all others present
                players = self.rng.choice(n, SUB_PLAYERS, replace=False)
                truth = games.brute_force_shapley(games.sub_game(game, players, n), SUB_PLAYERS, progress=False)
                claimed = one.restrict(players.tolist()).values.reshape(SUB_PLAYERS, k)
                _note(self.errors["shapley"], claimed, truth.reshape(SUB_PLAYERS, k))
        self.largest = np.maximum(self.largest, np.abs(table).max(axis=0))
        self.span = np.maximum(self.span, np.abs(table - table[0]).max(axis=0))
        _note(self.errors["value"], _values(one, masks), table)
        _note(self.errors["base"], one.base_values.reshape(1, k), table[:1])
        _note(self.errors["efficiency"], values.sum(axis=0)[None], table[-1:] - table[:1])

    def checks(self, tolerance: float, rounding: float) -> list[Check]:
        """The lines of a certificate; `rounding` is how much of the size of an output counts as its range."""
        scale = self.span + self.largest * rounding + np.finfo(float).tiny
        scope, rows = "proved" if self.full else "sampled", f"{self.n_rows} rows"
        masks = sub_games = f"all {2**self.n_players:,} masks of {rows}"
        if not self.full:
            masks = f"{self.n_masks:,} random masks of {rows}"
            sub_games = f"{self.n_subgames} random sub-games of {SUB_PLAYERS} players, {rows}"
        lines = (
            ("v(S) from the dividends = masked forward pass", "value", scope, masks),
            ("Shapley values = brute force", "shapley", scope, sub_games),
            ("sum of values = v(x) - v(empty)", "efficiency", "proved", rows),
            ("base value = v(empty)", "base", "proved", rows),
        )
        worst = {claim: float(np.max(error / scale)) for claim, error in self.errors.items()}
        return [Check(name, worst[claim] <= tolerance, kind, cases, worst[claim]) for name, claim, kind, cases in lines]


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


Fields = list[list[frozenset[int]]]  # the players of each unit, for each block


def _sets(masks: NDArray[np.bool_]) -> list[frozenset[int]]:
    """The members of each line."""
    return [frozenset(np.flatnonzero(line).tolist()) for line in masks]


def _of_units(model: Any, ex: Explanation) -> tuple[Fields, list[Check]]:
    """Receptive fields of a network, and whether they are what its children and the coalitions say.

    They are recomputed by unions of Python sets, apart from the matrix products of `networks.structure`.
    """
    network = getattr(model, "network_", model)
    claimed = [_sets(field.cpu().numpy()) for field in network.receptive_fields()]
    players = _sets(network.player_map().cpu().numpy())
    fields: Fields = []
    for children in network.child_masks():
        below = fields[-1] if fields else players
        if fields and children.shape[1] != len(below):  # children in all blocks below
            below = [field for block in fields for field in block]
        fields.append([frozenset().union(*(below[c] for c in chosen)) for chosen in _sets(children.cpu().numpy())])
    needed = {field for block in fields for field in block if field}
    return claimed, [
        Check("receptive fields follow from the children", claimed == fields, "proved", "every unit"),
        Check("coalitions are the receptive fields", needed == set(_sets(ex.coalitions)), "proved", "every unit"),
    ]


def _of_trees(trees: Any, ex: Explanation) -> tuple[Fields, list[Check]]:
    """Players of trees, and whether they are what the questions ask about and the coalitions say."""
    asked = [frozenset(trees.player_of[shape.columns].tolist()) for shape in trees.shapes]
    declared = [frozenset(shape.players.tolist()) for shape in trees.shapes]
    subsets = {frozenset(part) for a in set(asked) for size in range(len(a)) for part in combinations(a, size + 1)}
    held = set(_sets(ex.coalitions))
    return [asked], [
        Check("players of the trees follow from their questions", asked == declared, "proved", "every tree"),
        Check("coalitions are sets of players of one tree", held == subsets, "proved", "every tree"),
    ]


def _note(worst: NDArray[Any], claimed: NDArray[Any], truth: NDArray[Any]) -> None:
    """Keeps the largest error of each output, (K,), in `worst`; what is not a number is an infinite error."""
    error = np.abs(np.asarray(claimed, dtype=np.float64) - truth).max(axis=0)
    np.maximum(worst, np.where(np.isfinite(error), error, np.inf), out=worst)
