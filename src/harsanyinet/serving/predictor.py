"""Predictor: a model of a table where there is numpy and this package, and nothing else. A few rows at a time.

It reads the file that an estimator saved, codes cells with the model's own columns, and looks up the same tables: what
is left out is scikit-learn's interface, frames, and the compiled loops that pay for many rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harsanyinet import files
from harsanyinet.files import Place
from harsanyinet.tables import columns as coding
from harsanyinet.tables.look_ups import LookUp
from harsanyinet.tables.players import Players
from harsanyinet.tables.tree_games import GameName, TreeDividends, TreeGame
from harsanyinet.tables.trees import Trees

Array = NDArray[Any]
Rows = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Array
KINDS = ("HarsanyiClassifier", "HarsanyiRegressor")
_CHUNK = 1024  # rows; for more, compiled loops would be asked for


class Values(NamedTuple):
    """What a prediction is made of: `outputs` = `base_values` + the sum of `values` over the players.

    Attributes:
        values: (B, P[, K]) exact Shapley values of the raw output.
        base_values: () or (K,), the raw output with every player absent.
        outputs: (B[, K]) raw outputs.
    """

    values: Array
    base_values: Array
    outputs: Array


class _Shares:
    """(C, P): 1/|T| for the members of T, as much of a sparse matrix as `TreeGame.look_up` asks for."""

    def __init__(self, coalitions: Array) -> None:
        self.coalitions, self.shape = coalitions, coalitions.shape

    def __getitem__(self, chosen: Array) -> _Shares:
        return _Shares(self.coalitions[chosen])

    def tocoo(self) -> SimpleNamespace:
        row, col = np.nonzero(self.coalitions)
        return SimpleNamespace(row=row, col=col, data=1 / self.coalitions.sum(axis=1)[row], nnz=len(row))


class Predictor:
    """A fitted model of a table, made by `load_predictor` of what its file holds.

    Rows are one mapping from names of columns to values (what is not named is missing), a sequence of such mappings, or
    an array (B, columns) where all columns hold numbers.

    Attributes:
        columns: Names of the columns.
        players: Names of the players, which are the columns unless some are grouped.
        output_names: Names of the raw outputs.
        classes: Labels of a classifier, else None.
    """

    def __init__(self, kind: str, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        self._columns = coding.columns_from_arrays(arrays, meta["columns"])
        self.columns = [column.name for column in self._columns]
        own = {n.removeprefix("trees."): array for n, array in arrays.items() if n.startswith("trees.")}
        self._trees = Trees.from_arrays(own)
        groups = meta["params"]["groups"]
        self._players = Players.of(self.columns, None if groups is None else dict(groups["pairs"]))
        if not np.array_equal(self._trees.player_of, self._players.of_column[coding.columns_of(self._columns)]):
            raise ValueError("columns do not fit the trees")
        self.players = list(self._players.names)
        self.output_names = list(meta["output_names"])
        self._loss: str = meta["loss"]["name"]
        self.classes = files.labels(meta["classes"]) if kind == "HarsanyiClassifier" else None
        self._one_target = bool(meta.get("one_target", True))
        self._games: dict[GameName, TreeGame] = {}

    def raw_outputs(self, rows: Rows, present: ArrayLike | None = None) -> Array:
        """What values are exact for, (B,) or (B, K): logits, the target itself, or the logarithm of a mean.

        Args:
            rows: See above.
            present: (P,) or (B, P) bool, or names; players that are not present count as absent.
        """
        game = self._game("missing")
        parts = []
        for bins in self._coded(rows, present):
            full = bool(bins.all())
            planned = game.plan(("values", full), lambda full=full: LookUp.of_values(self._trees, full))  # type: ignore[misc]
            parts.append(planned.apply(bins).T + self._trees.base)
        return _dropped(np.concatenate(parts))

    def predict(self, rows: Rows, present: ArrayLike | None = None) -> Array:
        """Labels, (B,), or numbers, (B,) or (B, K)."""
        raw = self.raw_outputs(rows, present)
        if self.classes is not None:
            return np.asarray(self.classes[(raw > 0).astype(int) if raw.ndim == 1 else raw.argmax(1)])
        raw = np.exp(raw) if self._loss == "poisson" else raw
        return raw if self._one_target or raw.ndim == 2 else raw[:, None]

    def predict_proba(self, rows: Rows, present: ArrayLike | None = None) -> Array:
        """Probabilities of the classes, (B, K)."""
        if self.classes is None:
            raise TypeError("probabilities are of classes, however: this model predicts numbers; use predict")
        raw = self.raw_outputs(rows, present)
        if raw.ndim == 1:
            raw = np.stack([np.zeros_like(raw), raw], axis=1)
        shares = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def explain(self, rows: Rows, present: ArrayLike | None = None, *, game: GameName = "missing") -> Values:
        """Exact Shapley values of all rows and outputs.

        Args:
            rows: See above.
            present: As for `raw_outputs`.
            game: "missing" or "marginal", as in the estimator's `explain`.
        """
        own = self._game(game)
        shares = _Shares(own.coalitions)
        parts = [TreeDividends(own, bins).spread("SV", lambda: shares) for bins in self._coded(rows, present)]  # type: ignore[arg-type, return-value]
        values = np.concatenate(parts)  # (B, P, K)
        return Values(_dropped(values), _dropped(own.base), _dropped(values.sum(axis=1) + own.base))

    def _game(self, name: GameName) -> TreeGame:
        if name not in self._games:
            self._games[name] = TreeGame(self._trees, name)
        return self._games[name]

    def _coded(self, rows: Rows, present: ArrayLike | None) -> list[Array]:
        """The bins of rows, (D, some rows) each."""
        if isinstance(rows, np.ndarray):
            bins = self._coded_numbers(rows)
        else:
            some = [rows] if isinstance(rows, Mapping) else rows
            cells = [coding.code_dict(self._columns, row)[1] for row in some]
            bins = np.concatenate([np.empty((len(self._trees.player_of), 0), dtype=np.uint8), *cells], axis=1)
        bins = self._players.absent_together(bins, self._trees.player_of)
        if present is not None:
            bins = self._trees.masked(bins, self._players.masks(present, bins.shape[1]))
        starts = range(0, max(1, bins.shape[1]), _CHUNK)
        return [np.ascontiguousarray(bins[:, start : start + _CHUNK]) for start in starts]

    def _coded_numbers(self, rows: Array) -> Array:
        if rows.ndim != 2 or rows.shape[1] != len(self.columns) or rows.dtype.kind not in "fiu":
            raise ValueError(
                f"rows as an array must be numbers of shape (rows, {len(self.columns)}), however: {rows.dtype} "
                f"{rows.shape}; give mappings from names of columns to values"
            )
        parts = [coding.code_numbers(self._columns, rows[i : i + _CHUNK]) for i in range(0, max(1, len(rows)), _CHUNK)]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            raise ValueError(
                "rows as an array must hold finite numbers, for columns of numbers, however: these do not, or a column "
                "of the model holds something else; give mappings from names of columns to values"
            )
        return np.concatenate(found, axis=1)


def _dropped(numbers: Array) -> Array:
    """Without the axis K where there is one output."""
    return np.asarray(numbers[..., 0] if numbers.shape[-1] == 1 else numbers)


def load_predictor(path: Place) -> Predictor:
    """Reads the file of a fitted `HarsanyiClassifier` or `HarsanyiRegressor`. Needs numpy and nothing else.

    Raises:
        harsanyinet.files.ModelFileError: The file is damaged, foreign, or holds no model of a table.

    Examples:
        >>> import tempfile
        >>> from harsanyinet import HarsanyiRegressor
        >>> model = HarsanyiRegressor(max_iter=20, learning_rate=0.1, random_state=0, progress=False)
        >>> model = model.fit(np.arange(60.0).reshape(30, 2), np.arange(30.0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.hnet")
        ...     predictor = load_predictor(f"{folder}/model.hnet")
        >>> predictor.explain({"x0": 4.0}).values.shape
        (1, 2)
    """
    kind, arrays, meta = files.load_any(path, "model of a table", KINDS)
    try:
        return Predictor(kind, arrays, meta)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise files.ModelFileError(
            f"cannot load a model from {path}: its settings do not fit its trees; save it again with this version"
        ) from error
