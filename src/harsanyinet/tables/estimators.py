"""HarsanyiClassifier and HarsanyiRegressor: scikit-learn estimators for tables. Wiring; no mathematics of its own."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_random_state,
    column_or_1d,
    compute_class_weight,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from harsanyinet import files
from harsanyinet.explanation import Explanation
from harsanyinet.tables import bins as binning
from harsanyinet.tables.bins import Binning, Column
from harsanyinet.tables.frames import as_frame, pick_columns
from harsanyinet.tables.history import History
from harsanyinet.tables.limits import Limits, monotone_signs
from harsanyinet.tables.look_ups import LookUp
from harsanyinet.tables.losses import Loss
from harsanyinet.tables.players import Players, positions
from harsanyinet.tables.tree_games import GameName, TreeDividends, TreeGame, applied
from harsanyinet.tables.trees import Trees

Array = NDArray[Any]
LossName = Literal["squared", "absolute", "poisson", "quantile"]
Names = Sequence[str | int]

_FEW_ROWS = 20_000  # below, one thread is as fast as two
_MOST_COPIED = 200_000  # rows; of more there is one copy each
_SEEN_FOR_IMPORTANCE = 2000  # rows


class _HarsanyiTable(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share."""

    max_iter: int
    learning_rate: float | None
    max_depth: int
    max_order: int
    max_bins: int
    l2_regularization: float
    max_samples: float | None
    max_features: float | None
    copies: int | None
    members: int
    missing: Literal["auto", "value", "absent"]
    categorical_features: Names | None
    interaction_cst: Sequence[Names] | str | None
    forbidden: Sequence[Names] | None
    monotonic_cst: Mapping[str | int, int] | Sequence[int] | None
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    max_seconds: float | None
    random_state: int | np.random.RandomState | None
    n_jobs: int | None
    progress: bool
    groups: Mapping[str, Names] | None
    date_features: Names | Literal["auto"]
    strict: bool

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Parameters as attributes, as scikit-learn expects them."""
        for name in self._get_param_names():
            setattr(self, name, given[name])

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
        columns = [str(name) for name in frame.columns]
        seed = int(np.random.RandomState().randint(2**31) if self.random_state is None else _seed(self.random_state))
        players = Players.of(columns, self.groups)
        limits = Limits.of(self.max_order, self.interaction_cst, self.forbidden, players)
        signs = monotone_signs(self.monotonic_cst, columns)
        if signs.any() and loss.name == "multiclass":
            raise ValueError(f"monotonic_cst needs a binary target, however: y has {loss.n_classes} classes")
        fitted = fit_trees(
            frame, targets, weight / weight.mean(), loss, limits, signs, players=players,
            binning=Binning(max_bins=self.max_bins, missing=self.missing),
            categories=frame.columns[positions(self.categorical_features, columns, "categorical_features")],
            dates=None if isinstance(self.date_features, str)
            else frame.columns[positions(self.date_features, columns, "date_features")],
            settings=self._settings(frame, loss), rate=self.learning_rate, members=self.members,
            held=None if held is None else (self._held(held[0], columns), held[1]),
            held_share=self.validation_fraction if self.early_stopping and held is None else 0.0,
            patience=self.n_iter_no_change if self.early_stopping else None,
            seed=seed, n_threads=self._n_threads(len(frame)), progress=self.progress,
            until=None if self.max_seconds is None else started + self.max_seconds,
        )  # fmt: skip
        self.columns_: list[Column] = fitted.columns
        self.players_ = players
        self.learning_rate_: float = fitted.learning_rate
        self.history_: History = fitted.history
        self._finish(fitted.trees, fitted.member_ends, loss, names)
        rows = np.random.default_rng(seed).permutation(len(frame))[:_SEEN_FOR_IMPORTANCE]
        seen = TreeDividends(self._game("missing"), np.ascontiguousarray(fitted.bins[:, np.sort(rows)]))
        values = Explanation(base_values=self.trees_.base, dividends=seen, copy=False)._values
        self.feature_importances_ = np.abs(values).mean((0, 2))

    def _held(self, x: Any, columns: list[str]) -> pd.DataFrame:
        frame = as_frame(x, columns)
        if sorted(str(name) for name in frame.columns) != sorted(columns):
            raise ValueError(f"eval_set must have the columns of X, however: {', '.join(map(str, frame.columns[:8]))}")
        return pick_columns(frame, columns)

    def _settings(self, frame: pd.DataFrame, loss: Loss) -> Any:
        from harsanyinet.tables.boosting import Settings

        n, p = frame.shape
        most = max(3, min(6, 30 // max(1, loss.n_classes)))
        copies = max(1, min(most, _MOST_COPIED // n)) if self.copies is None else self.copies
        rows = min(0.8, max(0.1, 160_000 / n)) if self.max_samples is None else self.max_samples
        shown = min(1.0, max(0.05, 200 / p)) if self.max_features is None else self.max_features
        extra = Settings.extra_trees if copies and p > 1 else 0.0
        return Settings(
            n_trees=max(1, round(self.max_iter / (1 + extra))), depth=self.max_depth, max_players=self.max_order,
            l2=self.l2_regularization, row_share=rows, column_share=shown, copies=copies,
        )  # fmt: skip

    def _finish(self, trees: Trees, member_ends: Array, loss: Loss, output_names: list[str]) -> None:
        """What follows from the trees; also when a model is loaded."""
        self.trees_, self.member_ends_, self.loss_, self.output_names_ = trees, member_ends, loss, output_names
        self.n_iter_ = len(trees) // max(1, len(member_ends))
        self._games: dict[str, TreeGame] = {}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trees_")

    def _check_parameters(self) -> None:
        """One sentence for a parameter that cannot be meant; those about columns follow when these are known."""

        def count(value: object, least: int = 1) -> bool:
            return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least

        def within(value: object, low: float, high: float) -> bool:
            return isinstance(value, Real) and not isinstance(value, bool) and low <= float(value) <= high

        def several(value: object) -> bool:
            return hasattr(value, "__iter__") and not isinstance(value, str)

        def sets(value: Any) -> bool:
            return several(value) and all(map(several, value))

        tiny, columns = math.ulp(0.0), "names or numbers of columns"
        words = ("pairwise", "no_interactions")
        expected = {
            "max_iter": (count(self.max_iter), "a positive integer"),
            "learning_rate": (self.learning_rate is None or within(self.learning_rate, tiny, 10), "positive or None"),
            "max_depth": (count(self.max_depth) and self.max_depth <= 8, "an integer from 1 to 8"),
            "max_order": (count(self.max_order), "a positive integer"),
            "max_bins": (count(self.max_bins, 4) and self.max_bins <= 255, "an integer from 4 to 255"),
            "l2_regularization": (within(self.l2_regularization, tiny, 1e12), "positive"),
            "max_samples": (self.max_samples is None or within(self.max_samples, tiny, 1), "in (0, 1], or None"),
            "max_features": (self.max_features is None or within(self.max_features, tiny, 1), "in (0, 1], or None"),
            "copies": (self.copies is None or count(self.copies, 0), "zero, a positive integer or None"),
            "members": (count(self.members), "a positive integer"),
            "missing": (self.missing in ("auto", "value", "absent"), "auto, value or absent"),
            "categorical_features": (
                self.categorical_features is None or several(self.categorical_features), f"{columns}, or None",
            ),
            "date_features": (
                self.date_features == "auto" if isinstance(self.date_features, str) else several(self.date_features),
                f"'auto', or {columns}",
            ),
            "groups": (self.groups is None or isinstance(self.groups, Mapping), f"a dict of {columns}, or None"),
            "interaction_cst": (
                self.interaction_cst is None or sets(self.interaction_cst)
                or (isinstance(self.interaction_cst, str) and self.interaction_cst in words),
                f"sets of {columns}, 'pairwise', 'no_interactions', or None",
            ),
            "forbidden": (self.forbidden is None or sets(self.forbidden), f"pairs of {columns}, or None"),
            "monotonic_cst": (
                self.monotonic_cst is None or several(self.monotonic_cst), "a dict of columns, or numbers, or None",
            ),
            "early_stopping": (isinstance(self.early_stopping, bool | np.bool_), "True or False"),
            "validation_fraction": (within(self.validation_fraction, tiny, 1 - 2**-53), "in (0, 1)"),
            "n_iter_no_change": (count(self.n_iter_no_change), "a positive integer"),
            "max_seconds": (self.max_seconds is None or within(self.max_seconds, tiny, math.inf), "positive or None"),
            "n_jobs": (
                self.n_jobs is None or (isinstance(self.n_jobs, Integral) and self.n_jobs != 0),
                "a number of threads, negative to count from all of them, or None",
            ),
        }  # fmt: skip
        for name, (fits, wanted) in expected.items():
            if not fits:
                raise ValueError(f"{name} must be {wanted}, however: {name}={getattr(self, name)!r}")

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
        reference = None
        if baseline is not None:
            reference = self._coded(baseline)[1]
            if reference.shape[1] != 1:
                raise ValueError(f"baseline must be one row, however: {reference.shape[1]} rows")
        own = self._game(game) if baseline is None else TreeGame(self.trees_, game, reference)
        return Explanation(
            base_values=own.base,
            dividends=TreeDividends(own, coded, self._n_threads(coded.shape[1])),
            feature_names=self.players_.names,
            output_names=self.output_names_,
            data=_kept(frame, self.players_),
            row_names=_labels_of(frame),
            scale=self.loss_.scale,
            copy=False,
        )

    def value_spread(self, X: Any) -> Array:
        """How far the members disagree: the standard deviation of their Shapley values, (B, P[, K])."""
        coded = self._coded(X)[1]
        if len(self.member_ends_) < 2:
            raise ValueError("value_spread compares members, however: there is one; fit with members=5, say")
        each = []
        for start, stop in zip([0, *self.member_ends_[:-1]], self.member_ends_, strict=True):
            one = self.trees_.part(int(start), int(stop)).rescaled(float(len(self.member_ends_)), 0.0)
            seen = TreeDividends(TreeGame(one), coded)
            each.append(Explanation(base_values=one.base, dividends=seen, copy=False)._values)
        spread = np.std(each, axis=0)
        return np.asarray(spread[:, :, 0] if len(self.output_names_) == 1 else spread)

    def game(self, X: Any, row: int = 0) -> Any:
        """The game of one row, played by real predictions: masks (m, P) bool -> raw outputs (m,) or (m, K)."""
        frame = self._frame(X, reset=False)
        one = frame.iloc[row : row + 1]

        def play(masks: NDArray[np.bool_]) -> Array:
            parts = np.array_split(masks, max(1, -(-len(masks) // 4096)))  # all 2^16 at once would take much memory
            return np.concatenate([self._raw(one.iloc[np.zeros(len(part), dtype=int)], part) for part in parts])

        return play

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model to one file; `harsanyinet.load` reads it and runs no code from it."""
        check_is_fitted(self)
        files.save_arrays(path, type(self).__name__, *self.to_arrays())

    @property
    def _column_names(self) -> list[str]:
        return [column.name for column in self.columns_]

    def _game(self, name: GameName) -> TreeGame:
        if name not in self._games:
            self._games[name] = TreeGame(self.trees_, name)
        return self._games[name]

    def _raw(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Raw outputs, (B,) or (B, K), float64."""
        coded = self._input(X, present)[1]
        game, full = self._game("missing"), bool(coded.all())
        planned = game.plan(("values", full), lambda: LookUp.of_values(self.trees_, full))
        out = applied(planned, coded, self._n_threads(coded.shape[1])).T + self.trees_.base
        return np.asarray(out[:, 0] if out.shape[1] == 1 else out)

    def _input(self, X: Any, present: ArrayLike | None) -> tuple[Any, Array]:
        frame, coded = self._coded(X)
        if present is None:
            return frame, coded
        return frame, self.trees_.masked(coded, self.players_.masks(present, coded.shape[1]))

    def _coded(self, X: Any) -> tuple[Any, Array]:
        """The rows as they came, and their bins (D, B)."""
        check_is_fitted(self)
        if isinstance(X, Mapping) and not hasattr(X, "columns"):
            shown, coded = binning.code_dict(self.columns_, X)
            return shown, self.players_.absent_together(coded, self.trees_.player_of)
        plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind == "f" and not hasattr(self, "feature_names_in_")
        if plain and len(X) and X.shape[1] == len(self.columns_):
            numbers = binning.code_numbers(self.columns_, X)
            if numbers is not None:
                return X, self.players_.absent_together(numbers, self.trees_.player_of)
        frame = self._frame(X, reset=False)
        if len(frame.columns) == len(self.columns_):
            return frame, self.players_.absent_together(binning.code_frame(self.columns_, frame), self.trees_.player_of)
        have = [column for column in self.columns_ if column.name in frame.columns]
        coded = np.zeros((len(self.trees_.player_of), len(frame)), dtype=np.uint8)
        there = np.isin(self._column_names, frame.columns)[binning.columns_of(self.columns_)]
        coded[there] = binning.code_frame(have, frame)
        return frame.reindex(columns=self._column_names), self.players_.absent_together(coded, self.trees_.player_of)

    def _frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        """The rows as a frame whose columns are those of the model, checked as scikit-learn would."""
        least = 2 if reset else 1
        if hasattr(X, "columns") and not hasattr(X, "dtype"):
            frame = as_frame(X)
            if not reset and hasattr(self, "feature_names_in_"):
                extra = set(map(str, frame.columns)) - set(self._column_names)
                if not extra or not self.strict:
                    frame = pick_columns(frame, self._column_names, self.strict)
            if reset or (self.strict and list(frame.columns) != self._column_names):
                validate_data(self, frame, reset=reset, skip_check_array=True)
            if len(frame) < least or not len(frame.columns):
                what = f"{len(frame)} sample(s)" if len(frame) < least else "0 feature(s)"
                shape = f"(shape={frame.shape})"
                raise ValueError(f"Found a table with {what} {shape} while a minimum of {least} is required.")
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
        if self.n_jobs is None:
            return 1 if n_rows < _FEW_ROWS else _cores()
        return int(self.n_jobs) if self.n_jobs > 0 else max(1, _cores() + 1 + int(self.n_jobs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    # Files ----------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The fitted model as arrays and JSON."""
        arrays, columns = binning.columns_to_arrays(self.columns_)
        arrays |= {f"trees.{name}": array for name, array in self.trees_.to_arrays().items()}
        arrays |= {"member_ends": np.asarray(self.member_ends_), "feature_importances": self.feature_importances_}
        arrays |= {"held_out_losses": self.history_.losses}
        meta: dict[str, Any] = {
            "params": {name: files.plain(value) for name, value in self.get_params(deep=False).items()},
            "columns": columns, "loss": vars(self.loss_), "output_names": self.output_names_,
            "learning_rate": self.learning_rate_, "history": self.history_.settings(),
            "named": hasattr(self, "feature_names_in_"),
        }  # fmt: skip
        return arrays, meta

    def _restore(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        self.columns_ = binning.columns_from_arrays(arrays, meta["columns"])
        trees = Trees.from_arrays({n.removeprefix("trees."): a for n, a in arrays.items() if n.startswith("trees.")})
        self.players_ = Players.of(self._column_names, self.groups)
        if not np.array_equal(trees.player_of, self.players_.of_column[binning.columns_of(self.columns_)]):
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
        if "_games" in state:
            state["_games"] = {}
        return state


class HarsanyiClassifier(ClassifierMixin, _HarsanyiTable):  # type: ignore[misc]
    """A classifier for tables whose every prediction comes with exact Shapley values.

    Boosted trees whose every question has a third answer, "absent", which is learned. Numbers, booleans, text and
    categories may stand in one frame. A missing value (NaN, None) is a value of its own where the column had missing
    values in `fit`, and an absent player where it had none. Other markers of a missing value, such as "?", must be
    turned into NaN when the table is read. A category that was not there in `fit` counts as absent, with a warning.

    Args:
        max_iter: Trees. About a quarter of them teach what to say from some of the columns, and nothing else.
        learning_rate: Share of each tree's step that is taken. None: found by quick fits that watch rows held out.
        max_depth: Questions of a tree.
        max_order: The largest set of columns that may act together; 1 gives an additive model.
        max_bins: Bins of a column at most, with those for absent and missing values.
        l2_regularization: Added to the sum of second derivatives of a leaf.
        max_samples: Share of the rows that choose the questions of a tree. None: 0.8, less of more than 200,000.
        max_features: Share of the columns that may be asked about in a tree. None: all, less of more than 200.
        copies: Copies of the rows, with columns absent, that teach what to say from some of the columns. None: six,
            fewer of more than 33,000 rows or five classes. Zero: no copies; then v(S) is an average of leaves.
        members: Models whose outputs are averaged; more than one tell by `value_spread` how sure values are.
        missing: "auto", "value" (missing values are values), or "absent" (they are absent players).
        categorical_features: Columns of numbers that are categories.
        date_features: Columns of dates; each becomes trend, year, month, weekday and hour, which are one player.
            "auto": columns of that type, and of text that reads as dates, with a warning.
        groups: Columns that are one player, such as those of a one-hot code, by the name of the player:
            ``{"colour": ["is red", "is green"]}``. A player is absent where one of its columns is.
        strict: Whether rows to predict must have the columns of `fit`, in any order. If not, others are ignored, and
            those that are not there are absent, with a warning.
        interaction_cst: Sets of columns; columns act together only within one of them. Or "pairwise",
            "no_interactions".
        forbidden: Pairs of columns that never act together.
        monotonic_cst: For a column 1 (the logit never falls with it) or -1; for binary targets.
        early_stopping: Whether to hold out rows (or use `eval_set`) and keep the number of trees that is best on them.
        validation_fraction: Share of the rows to hold out for it.
        n_iter_no_change: Trees without a lower loss after which to stop.
        class_weight: "balanced", or a weight for each class.
        max_seconds: A time budget: the model so far when it is over.
        random_state: The same number gives the same model, to the bit, on any number of threads.
        n_jobs: Threads. None: one below 20,000 rows, else all cores; -1: all cores.
        progress: Whether to show a progress bar.

    Attributes:
        classes_: Labels, sorted.
        feature_importances_: Mean |Shapley value| of each column on training rows.
        n_iter_: Trees of each member.
        learning_rate_: As given or found.
        history_: Loss and scores on rows held out, with all their columns.
        columns_, trees_: The parts of the model.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = HarsanyiClassifier(random_state=0).fit(X, y)
        >>> model.explain(X[:5]).values.shape
        (5, 4, 3)
    """

    class_weight: Literal["balanced"] | Mapping[Any, float] | None

    def __init__(
        self,
        *,
        max_iter: int = 1000,
        learning_rate: float | None = None,
        max_depth: int = 6,
        max_order: int = 4,
        max_bins: int = 128,
        l2_regularization: float = 1.0,
        max_samples: float | None = None,
        max_features: float | None = None,
        copies: int | None = None,
        members: int = 1,
        missing: Literal["auto", "value", "absent"] = "auto",
        categorical_features: Names | None = None,
        date_features: Names | Literal["auto"] = "auto",
        groups: Mapping[str, Names] | None = None,
        strict: bool = True,
        interaction_cst: Sequence[Names] | str | None = None,
        forbidden: Sequence[Names] | None = None,
        monotonic_cst: Mapping[str | int, int] | Sequence[int] | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 50,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        max_seconds: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        progress: bool = True,
    ) -> None:
        self._keep(locals())

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        eval_set: tuple[Any, ArrayLike] | None = None,
    ) -> HarsanyiClassifier:
        """Bins the columns, finds how fast to learn, boosts.

        Args:
            X: A frame (pandas, polars) or an array, (B, P).
            y: Labels, (B,).
            sample_weight: (B,), none negative.
            eval_set: Rows and labels to watch instead of held-out ones; see `early_stopping`.
        """
        self._check_parameters()
        labels = _labels(y)
        check_consistent_length(X, labels)
        weight = _weights(sample_weight, X)
        used = labels if weight is None else labels[weight > 0]
        self.classes_ = np.unique(used)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least two classes, however: {len(self.classes_)} class in {len(used)} rows of weight"
            )
        known = np.isin(labels, self.classes_)
        codes = np.where(known, np.searchsorted(self.classes_, np.where(known, labels, self.classes_[0])), 0)
        if self.class_weight is not None:
            each = compute_class_weight(self.class_weight, classes=self.classes_, y=used)[codes]
            weight = each if weight is None else weight * each
        held = None
        if eval_set is not None:
            theirs = _labels(eval_set[1])
            if not np.isin(theirs, self.classes_).all():
                raise ValueError("eval_set must hold classes that y holds, however: it has others")
            held = (eval_set[0], np.searchsorted(self.classes_, theirs)[:, None].astype(np.float64))
        names = [str(label) for label in self.classes_]
        loss = Loss("binary") if len(names) == 2 else Loss("multiclass", len(names))
        outputs = names[1:] if len(names) == 2 else names
        self._fit_table(X, codes[:, None].astype(np.float64), weight, loss, outputs, held)
        return self

    def decision_function(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Logits: (B,) for classes_[1] of two, (B, K) otherwise. `present` (P,) or (B, P) masks columns."""
        return self._raw(X, present)

    def predict_proba(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Probabilities of the classes, (B, K)."""
        raw = self._raw(X, present)
        if raw.ndim == 1:
            positive = expit(raw)
            return np.column_stack([1 - positive, positive])
        return np.asarray(softmax(raw, axis=1))

    def predict(self, X: Any, present: ArrayLike | None = None) -> Array:
        """The likeliest class of each row."""
        raw = self._raw(X, present)
        chosen = (raw > 0).astype(int) if raw.ndim == 1 else raw.argmax(1)
        return np.asarray(self.classes_[chosen])

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The fitted model as arrays and JSON."""
        arrays, meta = super().to_arrays()
        return arrays, meta | {"classes": files.plain_labels(self.classes_)}

    def _restore(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        self.classes_ = files.labels(meta["classes"])
        super()._restore(arrays, meta)


class HarsanyiRegressor(RegressorMixin, _HarsanyiTable):  # type: ignore[misc]
    """A regressor for tables whose every prediction comes with exact Shapley values.

    Columns are treated as by `HarsanyiClassifier`, and so are the parameters that the two share.

    Args:
        loss: "squared" (the mean), "absolute" (the median), "quantile", or "poisson" (counts; the raw output is the
            logarithm of the mean).
        quantile: For the quantile loss.
        max_iter: See `HarsanyiClassifier`, as for all that follow.
        learning_rate: Share of each tree's step.
        max_depth: Questions of a tree.
        max_order: The largest set of columns that may act together.
        max_bins: Bins of a column.
        l2_regularization: Added to the weight of a leaf.
        max_samples: Share of the rows that choose the questions of a tree.
        max_features: Share of the columns that may be asked about in a tree.
        copies: Copies of the rows with columns absent.
        members: Models whose outputs are averaged.
        missing: What a missing value is.
        categorical_features: Columns of numbers that are categories.
        date_features: Columns of dates.
        groups: Columns that are one player.
        strict: Whether rows to predict must have all columns, and no others.
        interaction_cst: Sets of columns to act within.
        forbidden: Pairs of columns that never act together.
        monotonic_cst: For a column 1 or -1.
        early_stopping: Whether to keep the number of trees that is best on rows held out.
        validation_fraction: Share of the rows to hold out for it.
        n_iter_no_change: Trees without a lower loss after which to stop.
        max_seconds: A time budget.
        random_state: The same number gives the same model.
        n_jobs: Threads.
        progress: Whether to show a progress bar.

    Attributes:
        feature_importances_: Mean |Shapley value| of each column on training rows.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> model = HarsanyiRegressor(random_state=0).fit(X, X[:, 0] + X[:, 1] ** 2)
        >>> model.predict(X[:3], present=[True, False]).shape
        (3,)
    """

    loss: LossName
    quantile: float

    def __init__(
        self,
        *,
        loss: LossName = "squared",
        quantile: float = 0.5,
        max_iter: int = 1000,
        learning_rate: float | None = None,
        max_depth: int = 6,
        max_order: int = 4,
        max_bins: int = 128,
        l2_regularization: float = 1.0,
        max_samples: float | None = None,
        max_features: float | None = None,
        copies: int | None = None,
        members: int = 1,
        missing: Literal["auto", "value", "absent"] = "auto",
        categorical_features: Names | None = None,
        date_features: Names | Literal["auto"] = "auto",
        groups: Mapping[str, Names] | None = None,
        strict: bool = True,
        interaction_cst: Sequence[Names] | str | None = None,
        forbidden: Sequence[Names] | None = None,
        monotonic_cst: Mapping[str | int, int] | Sequence[int] | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 50,
        max_seconds: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        progress: bool = True,
    ) -> None:
        self._keep(locals())

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        eval_set: tuple[Any, ArrayLike] | None = None,
    ) -> HarsanyiRegressor:
        """Bins the columns, finds how fast to learn, boosts.

        Args:
            X: A frame (pandas, polars) or an array, (B, P).
            y: Numbers, (B,) or (B, K) for several targets.
            sample_weight: (B,), none negative.
            eval_set: Rows and numbers to watch instead of held-out ones; see `early_stopping`.
        """
        self._check_parameters()
        if self.loss not in get_args(LossName):
            raise ValueError(f"loss must be one of {', '.join(get_args(LossName))}, however: loss={self.loss!r}")
        if not isinstance(self.quantile, Real) or not 0 < self.quantile < 1:
            raise ValueError(f"quantile must lie between 0 and 1, however: quantile={self.quantile!r}")
        targets, names = _numbers(y)
        check_consistent_length(X, targets)
        self.one_target_: bool = targets.ndim == 1
        targets = targets.reshape(len(targets), -1)
        if self.loss == "poisson" and (targets < 0).any():
            raise ValueError(f"y must not be negative with loss='poisson', however: its minimum is {targets.min()}")
        weight = _weights(sample_weight, X)
        held = None
        if eval_set is not None:
            held = (eval_set[0], _numbers(eval_set[1])[0].reshape(-1, targets.shape[1]))
        quantile = {"absolute": 0.5, "quantile": float(self.quantile)}.get(self.loss)
        self._fit_table(X, targets, weight, Loss(self.loss, quantile=quantile), names, held)
        return self

    def predict(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Predictions, (B,) or (B, K); `present` (P,) or (B, P) masks columns."""
        raw = self._raw(X, present)
        if self.loss_.name == "poisson":
            raw = np.exp(raw)
        return raw if self.one_target_ or raw.ndim == 2 else raw[:, None]

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The fitted model as arrays and JSON."""
        arrays, meta = super().to_arrays()
        return arrays, meta | {"one_target": self.one_target_}

    def _restore(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        self.one_target_ = bool(meta["one_target"])
        super()._restore(arrays, meta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kept(rows: Any, players: Players) -> Any:
    """What players hold now, whatever becomes of the caller's table; a frame becomes an array when asked for."""
    if not isinstance(rows, pd.DataFrame):
        return players.shown(rows.copy())
    frame = rows.copy(deep=int(pd.__version__.split(".")[0]) < 3)  # pandas 3 copies what is written to later
    return lambda: players.shown(frame.to_numpy(dtype=object))


def _labels_of(rows: Any) -> pd.Index[Any] | None:
    """The index of a frame, unless it merely counts the rows."""
    if not isinstance(rows, pd.DataFrame):
        return None
    index = rows.index
    return None if isinstance(index, pd.RangeIndex) and (index.start, index.step) == (0, 1) else index


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))


def _weights(sample_weight: ArrayLike | None, x: Any) -> Array | None:
    """Weights of the rows as float64, or one clear sentence."""
    if sample_weight is None:
        return None
    weight = np.asarray(_check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True))
    if not weight.any():
        raise ValueError("sample_weight must be somewhere positive, however: it is zero everywhere")
    return weight


def _labels(y: ArrayLike) -> Array:
    """Labels as a one-dimensional array, or one clear sentence."""
    if y is None:
        raise ValueError("this classifier requires y to be passed, but the target y is None")
    values = column_or_1d(y, warn=True)
    if values.dtype.kind in "fc":
        assert_all_finite(values, input_name="y")
    missing = pd.isna(values) if values.dtype == object else np.zeros(len(values), dtype=bool)
    if missing.any():
        raise ValueError(f"y must have a label in every row, however: {int(missing.sum())} are missing")
    if values.dtype == object and len({type(v) for v in values}) > 1:
        kinds = sorted({type(v).__name__ for v in values})
        raise ValueError(f"y must hold labels of one type, however: {' and '.join(kinds)}")
    check_classification_targets(values)
    return np.asarray(values)


def _numbers(y: ArrayLike) -> tuple[Array, list[str]]:
    """Targets as float64, (B,) or (B, K), and the names of the outputs."""
    if y is None:
        raise ValueError("this regressor requires y to be passed, but the target y is None")
    name = getattr(y, "name", None)
    names = [str(c) for c in y.columns] if hasattr(y, "columns") else [str(name)] if name is not None else None
    try:
        values = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", allow_nd=False)
    except TypeError as error:
        raise ValueError(f"y must hold numbers, however: {error}") from error
    if values.ndim == 2 and values.shape[1] == 1 and names is None:
        names = ["output"]
    k = 1 if values.ndim == 1 else values.shape[1]
    return values, names or (["output"] if k == 1 else [f"output {i}" for i in range(k)])
