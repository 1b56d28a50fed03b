"""HarsanyiClassifier and HarsanyiRegressor: scikit-learn estimators for tables. What they share is in `table_model`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_consistent_length, compute_class_weight

from harsanyinet import files
from harsanyinet.tables.losses import Loss
from harsanyinet.tables.parameters import LossName, check_parameters
from harsanyinet.tables.table_model import Array, HarsanyiTable
from harsanyinet.tables.targets import as_labels, as_targets, as_weights


@dataclass(kw_only=True, eq=False, repr=False)
class HarsanyiClassifier(ClassifierMixin, HarsanyiTable):  # type: ignore[misc]
    """A classifier for tables whose every prediction comes with exact Shapley values.

    Boosted trees whose every question has a third answer, "absent", which is learned. Numbers, booleans, text and
    categories may stand in one frame. A missing value (NaN, None) is a value of its own where the column had missing
    values in `fit`, and an absent player where it had none. Other markers of a missing value, such as "?", must be
    turned into NaN when the table is read. A category that was not there in `fit` counts as absent, with a warning.

    Args:
        max_iter: Trees, to within one. About a quarter of them teach what to say from some of the columns, and nothing
            else. None: 1,000, and up to three times as many where the learning rate that is found would else be large;
            but not with a time budget, nor with 200,000 rows times outputs or more.
        learning_rate: Share of each tree's step that is taken. None: found by quick fits that watch rows held out.
        max_depth: Questions of a tree, at most; trees of fewer than 500 rows end where a question gains too little.
        max_order: The largest set of columns that may act together; 1 gives an additive model.
        max_bins: Bins of a column at most, with those for absent and missing values.
        l2_regularization: Added to the sum of second derivatives of a leaf.
        max_samples: Share of the rows that choose the questions of a tree. None: 0.8, less of more than 200,000.
        max_features: Share of the columns that may be asked about in a tree. None: all, less of more than 200.
        copies: Copies of the rows, with columns absent, that teach what to say from some of the columns; shared out
            among the members, and fewer where there are more trees. None: six, fewer of more than 33,000 rows or five
            classes. Zero: no copies; then v(S) is an average of leaves.
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

    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None,
        eval_set: tuple[Any, ArrayLike] | None = None,
    ) -> HarsanyiClassifier:  # fmt: skip
        """Bins the columns, finds how fast to learn, boosts.

        Args:
            X: A frame (pandas, polars) or an array, (B, P).
            y: Labels, (B,).
            sample_weight: (B,), none negative.
            eval_set: Rows and labels to watch instead of held-out ones; see `early_stopping`.
        """
        check_parameters(self.get_params(deep=False))
        labels = as_labels(y)
        check_consistent_length(X, labels)
        weight = as_weights(sample_weight, len(labels))
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
            theirs = as_labels(eval_set[1])
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
        return self.raw_outputs(X, present)

    def predict_proba(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Probabilities of the classes, (B, K)."""
        raw = self.raw_outputs(X, present)
        if raw.ndim == 1:
            positive = expit(raw)
            return np.column_stack([1 - positive, positive])
        return np.asarray(softmax(raw, axis=1))

    def predict(self, X: Any, present: ArrayLike | None = None) -> Array:
        """The likeliest class of each row."""
        raw = self.raw_outputs(X, present)
        chosen = (raw > 0).astype(int) if raw.ndim == 1 else raw.argmax(1)
        return np.asarray(self.classes_[chosen])

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The fitted model as arrays and JSON."""
        arrays, meta = super().to_arrays()
        return arrays, meta | {"classes": files.plain_labels(self.classes_)}

    def _restore(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        self.classes_ = files.labels(meta["classes"])
        super()._restore(arrays, meta)


@dataclass(kw_only=True, eq=False, repr=False)
class HarsanyiRegressor(RegressorMixin, HarsanyiTable):  # type: ignore[misc]
    """A regressor for tables whose every prediction comes with exact Shapley values.

    Columns are treated as by `HarsanyiClassifier`.

    Args:
        loss: "squared" (the mean), "absolute" (the median), "quantile", or "poisson" (counts; the raw output is the
            logarithm of the mean).
        quantile: For the quantile loss.

    All others, and the attributes but `classes_`, are those of `HarsanyiClassifier`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> model = HarsanyiRegressor(random_state=0).fit(X, X[:, 0] + X[:, 1] ** 2)
        >>> model.predict(X[:3], present=[True, False]).shape
        (3,)
    """

    loss: LossName = "squared"
    quantile: float = 0.5

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None,
        eval_set: tuple[Any, ArrayLike] | None = None,
    ) -> HarsanyiRegressor:  # fmt: skip
        """Bins the columns, finds how fast to learn, boosts.

        Args:
            X: A frame (pandas, polars) or an array, (B, P).
            y: Numbers, (B,) or (B, K) for several targets.
            sample_weight: (B,), none negative.
            eval_set: Rows and numbers to watch instead of held-out ones; see `early_stopping`.
        """
        check_parameters(self.get_params(deep=False))
        targets, names = as_targets(y)
        check_consistent_length(X, targets)
        self.one_target_: bool = targets.ndim == 1
        targets = targets.reshape(len(targets), -1)
        if self.loss == "poisson" and (targets < 0).any():
            raise ValueError(f"y must not be negative with loss='poisson', however: its minimum is {targets.min()}")
        weight = as_weights(sample_weight, len(targets))
        held = None
        if eval_set is not None:
            held = (eval_set[0], as_targets(eval_set[1])[0].reshape(-1, targets.shape[1]))
        quantile = {"absolute": 0.5, "quantile": float(self.quantile)}.get(self.loss)
        self._fit_table(X, targets, weight, Loss(self.loss, quantile=quantile), names, held)
        return self

    def predict(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Predictions, (B,) or (B, K); `present` (P,) or (B, P) masks columns."""
        raw = self.raw_outputs(X, present)
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
