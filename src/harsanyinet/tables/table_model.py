"""HarsanyiTable: what the two estimators for tables share. Wiring of bins, trees and games; no mathematics."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from harsanyinet import files
from harsanyinet.explanations.dividends import shapley_values
from harsanyinet.explanations.explanation import Explanation
from harsanyinet.tables import columns as coding
from harsanyinet.tables.columns import Column
from harsanyinet.tables.frames import as_frame, pick_columns
from harsanyinet.tables.look_ups import LookUp
from harsanyinet.tables.losses import History, Loss
from harsanyinet.tables.players import Players
from harsanyinet.tables.tree_games import GameName, TreeDividends, TreeGame, applied
from harsanyinet.tables.trees import Trees
from harsanyinet.threads import count_threads

Array = NDArray[Any]
Names = Sequence[str | int]

_FEW_ROWS = 20_000  # below, one thread is as fast as two
_SEEN_FOR_IMPORTANCE = 2000  # rows


@dataclass(kw_only=True, eq=False, repr=False)  # parameters, as scikit-learn expects them
class HarsanyiTable(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share: rows in, raw outputs, Shapley values and files out.

    A subclass turns its target into numbers and names its outputs, and turns raw outputs into predictions.
    """

    max_iter: int | None = None
    learning_rate: float | None = None
    max_depth: int = 6
    max_order: int = 4
    max_bins: int = 128
    l2_regularization: float = 1.0
    max_samples: float | None = None
    max_features: float | None = None
    copies: int | None = None
    members: int = 1
    missing: Literal["auto", "value", "absent"] = "auto"
    categorical_features: Names | None = None
    date_features: Names | Literal["auto"] = "auto"
    groups: Mapping[str, Names] | None = None
    strict: bool = True
    interaction_cst: Sequence[Names] | str | None = None
    forbidden: Sequence[Names] | None = None
    monotonic_cst: Mapping[str | int, int] | Sequence[int] | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 50
    max_seconds: float | None = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    progress: bool = True

    # Fitting --------------------------------------------------------------------------------------------------------

    def _fit_table(
        self, x: Any, targets: Array, weight: Array | None, loss: Loss, names: list[str],
        held: tuple[Any, Array] | None,
    ) -> None:  # fmt: skip
        """Everything after the target has been understood. `targets` (B, T) float64: class numbers or numbers."""
        from harsanyinet.tables.fitting import fit_trees  # with numba

        started = time.monotonic()
        frame = self._frame(x, reset=True)
        weight = np.ones(len(frame)) if weight is None else weight
        if not weight.all():  # a row of weight zero is as good as not passed
            frame, targets, weight = frame[weight > 0], targets[weight > 0], weight[weight > 0]
        own = self.random_state is None  # numpy's global state is nobody's
        seed = int((np.random.RandomState() if own else check_random_state(self.random_state)).randint(2**31 - 1))
        until = None if self.max_seconds is None else started + self.max_seconds
        n_threads = self._n_threads(len(frame))
        fitted = fit_trees(self, frame, targets, weight / weight.mean(), loss, held, seed, n_threads, until)
        self.columns_: list[Column] = fitted.columns
        self.players_ = fitted.players
        self.learning_rate_: float = fitted.learning_rate
        self.history_: History = fitted.history
        self._finish(fitted.trees, fitted.member_ends, loss, names)
        rows = np.random.default_rng(seed).permutation(len(frame))[:_SEEN_FOR_IMPORTANCE]
        seen = TreeDividends(self._game("missing"), np.ascontiguousarray(fitted.bins[:, np.sort(rows)]))
        self.feature_importances_ = np.abs(shapley_values(seen)).mean((0, 2))

    def _finish(self, trees: Trees, member_ends: Array, loss: Loss, output_names: list[str]) -> None:
        """What follows from the trees; also when a model is loaded."""
        self.trees_, self.member_ends_, self.loss_, self.output_names_ = trees, member_ends, loss, output_names
        self.n_iter_ = len(trees) // max(1, len(member_ends))
        self._games: dict[str, TreeGame] = {}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trees_")

    # Using ----------------------------------------------------------------------------------------------------------

    def explain(
        self, X: Any, present: ArrayLike | None = None, *, game: GameName = "missing", baseline: Any = None
    ) -> Explanation:
        """Exact Shapley values of all rows and outputs, and all that follows from their dividends, in one pass.

        The game says what happens to columns outside a coalition. If y depends on `size` alone and `weight` is a
        noisy copy of `size`, then

        - "missing" asks what the model says when the others are missing. `weight` says much about y, so it has a
          share of the value: this tells what the data say.
        - "marginal" asks for the mean prediction with the others replaced by those of all training rows. The model
          hardly looks at `weight` beside `size`, so its value is near zero: this tells what the model does.
        - "baseline" compares with one row, given by `baseline`.

        Args:
            X: Rows, as for `predict`.
            present: (P,) or (B, P) bool; columns that are not present count as absent.
            game: See above. All three are exact.
            baseline: The row to compare with.
        """
        frame, coded = self._input(X, present)
        own = self.tree_game(game, baseline)
        return Explanation(
            base_values=own.base,
            dividends=TreeDividends(own, coded, self._n_threads(coded.shape[1])),
            feature_names=self.players_.names,
            output_names=self.output_names_,
            data=_kept(frame, self.players_),
            row_names=_row_names(frame),
            scale=self.loss_.scale,
            copy=False,
        )

    def tree_game(self, game: GameName = "missing", baseline: Any = None) -> TreeGame:
        """The game that `explain` plays, as the trees have it; arguments as there."""
        check_is_fitted(self)
        if baseline is None:
            return self._game(game)
        reference = self._input(baseline)[1]
        if reference.shape[1] != 1:
            raise ValueError(f"baseline must be one row, however: {reference.shape[1]} rows")
        return TreeGame(self.trees_, game, reference)

    def value_spread(self, X: Any) -> Array:
        """How far the members disagree: the standard deviation of their Shapley values, (B, P[, K])."""
        coded = self._input(X)[1]
        if len(self.member_ends_) < 2:
            raise ValueError("value_spread compares members, however: there is one; fit with members=5, say")
        each = []
        for start, stop in pairwise([0, *self.member_ends_]):
            one = self.trees_.part(int(start), int(stop)).rescaled(float(len(self.member_ends_)), 0.0)
            each.append(shapley_values(TreeDividends(TreeGame(one), coded)))
        spread = np.std(each, axis=0)
        return np.asarray(spread[:, :, 0] if len(self.output_names_) == 1 else spread)

    def game(self, X: Any, row: int = 0) -> Any:
        """The game of one row, played by real predictions: masks (m, P) bool -> raw outputs (m,) or (m, K)."""
        frame = self._frame(X, reset=False)
        one = frame.iloc[row : row + 1]

        def play(masks: NDArray[np.bool_]) -> Array:
            parts = np.array_split(masks, max(1, -(-len(masks) // 4096)))  # all 2^16 at once would take much memory
            return np.concatenate([self.raw_outputs(one.iloc[np.zeros(len(part), dtype=int)], part) for part in parts])

        return play

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model to one file; `harsanyinet.load` reads it and runs no code from it."""
        check_is_fitted(self)
        files.save_arrays(path, type(self).__name__, *self.to_arrays())

    def to_onnx(self, path: str | PathLike[str], **options: Any) -> None:
        """Writes an ONNX file that predicts and explains without this package; see `harsanyinet.to_onnx`."""
        import harsanyinet  # the room that exports stands above this one: through the front door

        check_is_fitted(self)
        harsanyinet.to_onnx(self, path, **options)

    @property
    def _column_names(self) -> list[str]:
        return [column.name for column in self.columns_]

    def _game(self, name: GameName) -> TreeGame:
        if name not in self._games:
            self._games[name] = TreeGame(self.trees_, name)
        return self._games[name]

    def raw_outputs(self, X: Any, present: ArrayLike | None = None) -> Array:
        """What values are exact for, (B,) or (B, K) float64: logits, the target itself, or the logarithm of a mean.

        Args:
            X: Rows, as for `predict`.
            present: (P,) or (B, P) bool, or names; columns that are not present count as absent.
        """
        coded = self._input(X, present)[1]
        game, full = self._game("missing"), bool(coded.all())
        planned = game.plan(("values", full), lambda: LookUp.of_values(self.trees_, full))
        out = applied(planned, coded, self._n_threads(coded.shape[1])).T + self.trees_.base
        return np.asarray(out[:, 0] if out.shape[1] == 1 else out)

    def _input(self, X: Any, present: ArrayLike | None = None) -> tuple[Any, Array]:
        """The rows as they came, and their bins (D, B)."""
        check_is_fitted(self)
        rows, coded = self._coded(X)
        coded = self.players_.absent_together(coded, self.trees_.player_of)
        if present is None:
            return rows, coded
        return rows, self.trees_.masked(coded, self.players_.masks(present, coded.shape[1]))

    def _coded(self, X: Any) -> tuple[Any, Array]:
        if isinstance(X, Mapping) and not hasattr(X, "columns"):
            return coding.code_dict(self.columns_, X)
        plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind == "f" and not hasattr(self, "feature_names_in_")
        if plain and len(X) and X.shape[1] == len(self.columns_):
            numbers = coding.code_numbers(self.columns_, X)
            if numbers is not None:
                return X, numbers
        frame = self._frame(X, reset=False)
        if len(frame.columns) == len(self.columns_):
            return frame, coding.code_frame(self.columns_, frame)
        have = [column for column in self.columns_ if column.name in frame.columns]
        coded = np.zeros((len(self.trees_.player_of), len(frame)), dtype=np.uint8)
        there = np.isin(self._column_names, frame.columns)[coding.columns_of(self.columns_)]
        coded[there] = coding.code_frame(have, frame)
        return frame.reindex(columns=self._column_names), coded

    def _frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        """The rows as a frame whose columns are those of the model, checked as scikit-learn would."""
        least = 2 if reset else 1
        if hasattr(X, "columns") and not hasattr(X, "dtype"):
            frame = as_frame(X)
            if not reset and hasattr(self, "feature_names_in_"):
                known = set(map(str, frame.columns)) <= set(self._column_names)
                if known or not self.strict:
                    frame = pick_columns(frame, self._column_names, self.strict)
            if reset or (self.strict and list(frame.columns) != self._column_names):
                validate_data(self, frame, reset=reset, skip_check_array=True)
            if len(frame) < least or not len(frame.columns):
                what = f"{len(frame)} sample(s)" if len(frame) < least else "0 feature(s)"
                raise ValueError(
                    f"Found a table with {what} (shape={frame.shape}) while a minimum of {least} is required."
                )
            return frame
        if isinstance(X, list | tuple) and np.asarray(X).dtype.kind in "SU":
            X = np.array(X, dtype=object)  # numpy would turn the numbers beside a text into text
        array = check_array(
            X, dtype=None, ensure_all_finite=False, ensure_min_samples=least, estimator=self, input_name="X"
        )
        validate_data(self, X, reset=reset, skip_check_array=True)
        if array.dtype.kind in "SU":
            array = array.astype(object)
        return as_frame(array, None if reset else self._column_names)

    def _n_threads(self, n_rows: int) -> int:
        """As many as `n_jobs` says; without it one for few rows, else all cores."""
        return count_threads(1 if self.n_jobs is None and n_rows < _FEW_ROWS else self.n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    # Files ----------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The fitted model as arrays and JSON."""
        arrays, columns = coding.columns_to_arrays(self.columns_)
        arrays |= {f"trees.{name}": array for name, array in self.trees_.to_arrays().items()} | {
            "member_ends": self.member_ends_, "feature_importances": self.feature_importances_,
            "held_out_losses": self.history_.losses,
        }  # fmt: skip
        meta: dict[str, Any] = {
            "params": {name: files.plain(value) for name, value in self.get_params(deep=False).items()},
            "columns": columns, "loss": vars(self.loss_), "output_names": self.output_names_,
            "learning_rate": self.learning_rate_, "history": self.history_.settings(),
            "named": hasattr(self, "feature_names_in_"),
        }  # fmt: skip
        return arrays, meta

    def _restore(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        self.columns_ = coding.columns_from_arrays(arrays, meta["columns"])
        trees = Trees.from_arrays({n.removeprefix("trees."): a for n, a in arrays.items() if n.startswith("trees.")})
        self.players_ = Players.of(self._column_names, self.groups)
        if not np.array_equal(trees.player_of, self.players_.of_column[coding.columns_of(self.columns_)]):
            raise ValueError("columns do not fit the trees")
        self.learning_rate_ = float(meta["learning_rate"])
        self.history_ = History(losses=np.array(arrays["held_out_losses"]), **meta["history"])
        self.n_features_in_ = len(self.columns_)
        if meta["named"]:
            self.feature_names_in_ = np.array(self._column_names, dtype=object)
        self.feature_importances_ = np.array(arrays["feature_importances"])
        self._finish(trees, np.array(arrays["member_ends"]), Loss(**meta["loss"]), list(meta["output_names"]))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> Any:
        """From what `to_arrays` returned."""
        params: Any = {name: dict(v["pairs"]) if isinstance(v, dict) else v for name, v in meta["params"].items()}
        model = cls(**params)
        model._restore(arrays, meta)
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        return state | {"_games": {}} if "_games" in state else state


def _kept(rows: Any, players: Players) -> Any:
    """What players hold now, whatever becomes of the caller's table; a frame becomes an array when asked for."""
    if not isinstance(rows, pd.DataFrame):
        return players.shown(rows.copy())
    frame = rows.copy(deep=int(pd.__version__.split(".")[0]) < 3)  # pandas 3 copies what is written to later
    return lambda: players.shown(frame.to_numpy(dtype=object))


def _row_names(rows: Any) -> pd.Index[Any] | None:
    """The index of a frame, unless it merely counts the rows."""
    if not isinstance(rows, pd.DataFrame):
        return None
    index = rows.index
    return None if isinstance(index, pd.RangeIndex) and (index.start, index.step) == (0, 1) else index
