"""HarsanyiClassifier and HarsanyiRegressor: scikit-learn estimators for tables. Wiring; no mathematics of its own."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
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
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet.encoders import Coding, TableEncoder, as_frame
from harsanyinet.explanation import Explanation
from harsanyinet.folded import FoldedTable
from harsanyinet.growth import Growth, grow
from harsanyinet.network import check_present
from harsanyinet.planning import Limits, Plan, Problem, cell_ranks, positions, worth_keeping
from harsanyinet.screening import screen
from harsanyinet.tabular import TableNet
from harsanyinet.training import History, TrainingConfig, draw_masks, fit_module

Array = NDArray[Any]
LossName = Literal["squared", "absolute", "poisson", "quantile"]

_LEAST_TO_GROW = 1_000  # rows
_TRIALS = 3  # of growth; one is enough where it leaves out many rows
_MANY = 20_000  # rows
_MOST_CHECKED = 20_000  # rows that the held-out loss is computed on


class _Members(nn.Module):
    """A network as its members: what the fit loop trains."""

    def __init__(self, net: TableNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        return self.net.member_outputs(x, present)


class _HarsanyiTable(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share."""

    def __init__(
        self,
        *,
        members: int = 8,
        max_order: int | None = None,
        interactions: Sequence[Sequence[str | int]] | None = None,
        forbidden: Sequence[Sequence[str | int]] | None = None,
        monotone: Mapping[str | int, int] | None = None,
        categorical: Sequence[str | int] | None = None,
        masked_share: float = 0.4,
        epochs: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        dropout: float | None = None,
        width: int = 128,
        max_tables: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        progress: bool = True,
    ) -> None:
        self.members = members
        self.max_order = max_order
        self.interactions = interactions
        self.forbidden = forbidden
        self.monotone = monotone
        self.categorical = categorical
        self.masked_share = masked_share
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.dropout = dropout
        self.width = width
        self.max_tables = max_tables
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.progress = progress

    # Fitting ------------------------------------------------------------------------------------------------------

    def _fit_table(self, x: Any, targets: Array, weight: Array | None, problem: Problem) -> None:
        """Everything after the target has been understood. `targets` (B, T) float64: class numbers or numbers."""
        frame = self._frame(x, reset=True)
        if weight is not None and not weight.all():  # a row of weight zero is as good as not passed
            frame, targets, weight = frame[weight > 0], targets[weight > 0], weight[weight > 0]
        names = [str(name) for name in frame.columns]
        seed = int(np.random.RandomState().randint(2**31) if self.random_state is None else _seed(self.random_state))
        plan = Plan.of(len(frame), problem.classifies)
        limits = Limits.of(self, names)
        categories = [frame.columns[i] for i in positions(self.categorical, names, "categorical")]
        coding = Coding(min_rows=plan.min_rows)
        alone = [frame.columns[i] for i in limits.rising]
        self.encoder_ = TableEncoder.fit(frame, coding, categories, smooth=alone)
        wrong = [c.name for i, c in enumerate(self.encoder_.columns) if i in limits.rising and c.kind == "category"]
        if wrong:
            raise ValueError(f"monotone columns must hold numbers, however: {wrong[0]!r} holds categories")
        coded = self.encoder_.code(frame)
        with self._threads(1 if len(frame) < 5000 else None):  # small products are no work for two
            net, relevant = self._build(coded, targets, problem, plan, limits, seed)
            self.history_, held_out = self._train(net, coded, targets, weight, problem, plan, seed)
            net = net.cpu()
            if held_out is not None and not self.history_.interrupted:
                keep, means = worth_keeping(net, *held_out[:2], problem, *held_out[2:], relevant=relevant)
                net = net.pruned(keep).eval()
                net.bases.data += means
                columns = [i for i in relevant if i not in limits.rising]
                self._grow(net, coded, problem.scaled(targets), weight, problem, limits, columns, seed)
            net.rescale_(problem.scale, [0.0] * problem.n_outputs)  # the shift may be too large for float32
            self._finish(net, problem)
            rows = np.random.default_rng(seed).permutation(len(coded))[:2000]
            values = self.folded_.shapley(self.folded_.contributions(torch.from_numpy(coded[rows])))
        self.feature_importances_ = values.abs().mean((0, 2)).double().numpy()

    def _grow(
        self, net: TableNet, coded: Array, y: Array, weight: Array | None, problem: Problem, limits: Limits,
        columns: Sequence[int], seed: int,
    ) -> None:  # fmt: skip
        """Boosts tables on what the members leave unexplained of rows that they did not learn from.

        Each row counts once as it is and, for less, once with columns absent.
        """
        n_rows = len(coded)
        if n_rows < _LEAST_TO_GROW or not self.max_tables:
            return
        fold = self._folds(n_rows, seed)
        n_trials = min(self.members, _TRIALS if n_rows < _MANY else 1)
        columns_of = self.encoder_.columns
        n_cells = [c.n_cells for c in columns_of]
        cells = np.where(np.isnan(coded[:, :, 0]), -1, coded[:, :, 2]).astype(np.int64)
        order = cell_ranks(
            cells, n_cells, [c.kind for c in columns_of], problem.indicators(y * problem.scale + problem.shift)
        )
        first = np.cumsum([0, *n_cells[:-1]])
        ranks = np.where(cells >= 0, order[np.maximum(cells, 0) + first], -1).astype(np.int16)
        weight = np.ones(n_rows) if weight is None else weight
        outputs = self._held_out(net, coded, fold, None)
        if self.masked_share:
            masks = draw_masks(n_rows, coded.shape[1], torch.Generator().manual_seed(seed)).numpy()
            ranks = np.concatenate([ranks, np.where(masks, ranks, np.int16(-1))])
            outputs = np.concatenate([outputs, self._held_out(net, coded, fold, masks)])
            y, fold, weight = np.tile(y, (2, 1)), np.tile(fold, 2), np.concatenate([weight, weight / 2])
        tables = grow(
            ranks, max(n_cells), outputs, y, gradient=problem.gradient, loss=problem.mean_loss,
            judged=np.where(fold < n_trials, fold, -1), allowed=limits.allow,
            columns=columns, weight=weight, growth=Growth(most=self.max_tables), seed=seed,
            progress=self.progress,
        )  # fmt: skip
        net.take_tables(tables, order)

    def _held_out(self, net: TableNet, coded: Array, fold: Array, masks: Array | None) -> Array:
        """Outputs (B, K) for each row of the member that did not learn from it; of all of them where there is none."""
        found = np.empty((len(coded), net.n_outputs))
        for rows in np.array_split(np.arange(len(coded)), math.ceil(len(coded) / 1024)):
            present = None if masks is None else torch.from_numpy(masks[rows])
            with torch.inference_mode():
                each = net.member_outputs(torch.from_numpy(coded[rows]), present).double().numpy()  # (rows, M, K)
            held = fold[rows] < self.members
            found[rows] = each.mean(1)
            found[rows[held]] = each[held, fold[rows[held]]]
        return found

    def _folds(self, n_rows: int, seed: int) -> Array:
        """The member that does not learn from a row; a number that no member has for rows that all learn from."""
        return np.random.default_rng(seed).permutation(n_rows) % (self.members if self.members >= 4 else 8)

    def _finish(self, net: TableNet, problem: Problem) -> None:
        self.problem_, self.network_ = problem, net.eval()
        with self._threads(1):  # the same bits whoever calls
            self.folded_ = FoldedTable.of(net)

    def _check_parameters(self) -> None:
        """One sentence for a parameter that cannot be meant; those about columns follow when these are known."""

        def count(value: object) -> bool:
            return isinstance(value, Integral) and not isinstance(value, bool) and int(value) > 0

        def within(value: object, low: float, high: float) -> bool:
            return isinstance(value, Real) and not isinstance(value, bool) and low <= float(value) <= high

        def several(value: object) -> bool:
            return hasattr(value, "__iter__") and not isinstance(value, str)

        def sets(value: Any) -> bool:
            return several(value) and all(map(several, value))

        tiny, columns = math.ulp(0.0), "names or numbers of columns"
        expected = {
            "members": (count(self.members), "a positive integer"),
            "interactions": (self.interactions is None or sets(self.interactions), f"sets of {columns}, or None"),
            "forbidden": (self.forbidden is None or sets(self.forbidden), f"pairs of {columns}, or None"),
            "monotone": (self.monotone is None or isinstance(self.monotone, Mapping), "a dict of columns, or None"),
            "categorical": (self.categorical is None or several(self.categorical), f"{columns}, or None"),
            "masked_share": (within(self.masked_share, 0, 1), "in [0, 1]"),
            "epochs": (self.epochs is None or count(self.epochs), "a positive integer or None"),
            "learning_rate": (
                self.learning_rate is None or within(self.learning_rate, tiny, 1e9), "positive or None",
            ),
            "batch_size": (self.batch_size is None or count(self.batch_size), "a positive integer or None"),
            "dropout": (self.dropout is None or within(self.dropout, 0, 1 - 2**-53), "in [0, 1), or None"),
            "width": (count(self.width), "a positive integer"),
            "max_tables": (count(self.max_tables) or self.max_tables == 0, "zero or a positive integer"),
            "n_jobs": (
                self.n_jobs is None or (isinstance(self.n_jobs, Integral) and self.n_jobs != 0),
                "a number of threads, negative to count from all of them, or None",
            ),
        }  # fmt: skip
        for name, (fits, wanted) in expected.items():
            if not fits:
                raise ValueError(f"{name} must be {wanted}, however: {name}={getattr(self, name)!r}")
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError, TypeError) as error:
            first = str(error).splitlines()[0]
            raise ValueError(f"device must be one that torch has here, however: {self.device!r} ({first})") from error

    def _build(
        self, coded: Array, targets: Array, problem: Problem, plan: Plan, limits: Limits, seed: int
    ) -> tuple[TableNet, tuple[int, ...]]:
        """The network: every column by itself, the sets that screening found, and the wide ones."""
        columns, n = self.encoder_.columns, len(self.encoder_.columns)
        cells = np.where(np.isnan(coded[:, :, 0]), -1, coded[:, :, 2]).astype(np.int64)
        room = max(0, 2**22 // (problem.n_outputs * max((c.n_cells for c in columns), default=1) ** 3))
        found = screen(
            cells, problem.indicators(targets), max_order=limits.max_order, allowed=limits.allow,
            n_triples=min(n, 4, room), seed=seed,
        )  # fmt: skip
        missing = np.isnan(coded[:, :, 0]).mean(axis=0)
        net = TableNet(
            problem.n_outputs, knots=[len(c.knots) for c in columns], levels=[c.n_levels for c in columns],
            cells=[c.n_cells for c in columns], sets=[*found.pairs, *found.triples],
            wide=limits.wide(found.relevant, missing), members=self.members, wide_channels=self.width,
            rising=[limits.rising.get(i, 0) for i in range(n)] if limits.rising else None,
            dropout=plan.dropout if self.dropout is None else self.dropout, seed=seed,
        )  # fmt: skip
        return net.to(self.device), found.relevant

    def _train(
        self, net: TableNet, coded: Array, targets: Array, weight: Array | None, problem: Problem, plan: Plan, seed: int
    ) -> tuple[History, tuple[Tensor, Tensor, Tensor] | None]:
        """Each member learns from all rows but a share of its own, by which the best moment to stop is found."""
        n_rows, m = len(coded), self.members
        draw = np.random.default_rng(seed)
        fold = self._folds(n_rows, seed)
        y = torch.from_numpy(np.column_stack([problem.scaled(targets), fold]).astype(np.float32))
        x = torch.from_numpy(coded)
        net.bases.data += torch.as_tensor(problem.start(targets, weight), dtype=torch.float32)
        judged = draw.permutation(np.flatnonzero(fold < m))[:_MOST_CHECKED]  # in no order, whatever that of the table
        important = torch.ones(n_rows, dtype=torch.float64) if weight is None else torch.from_numpy(weight)
        held_out = (x[judged], y[judged], important[judged])
        validated = n_rows >= 64
        config = TrainingConfig(
            epochs=self.epochs or plan.epochs, batch_size=self.batch_size or plan.batch_size, schedule="onecycle",
            beta2=0.99, learning_rate=self.learning_rate or plan.learning_rate, weight_decay=plan.weight_decay,
            masked_share=self.masked_share, tolerance=0.005 if problem.classifies else 0.02,
            patience=plan.patience if validated else None,
        )  # fmt: skip
        module, device = _Members(net), self.device

        def loss(outputs: Tensor, y: Tensor) -> Tensor:
            each = problem.loss(outputs, y[:, None, :-1])  # (B, M)
            if not validated:
                return each.mean(1)
            others = y[:, -1:] != torch.arange(m, device=y.device)
            use = others if module.training else ~others
            return (each * use).sum(1) * (1.0 if module.training else m) / m

        history = fit_module(
            module, x.to(device), y.to(device), loss=loss, config=config, n_players=x.shape[1], seed=seed,
            validation=(held_out[0].to(device), held_out[1].to(device), held_out[2]) if validated else None,
            sample_weight=None if weight is None else torch.from_numpy(weight), progress=self.progress,
        )  # fmt: skip
        return history, held_out if validated else None

    # Using --------------------------------------------------------------------------------------------------------

    def explain(self, X: Any, present: ArrayLike | None = None) -> Explanation:
        """Exact Shapley values of all rows and outputs, and all that follows from their dividends, in one pass.

        Args:
            X: Rows, as for `predict`.
            present: (P,) or (B, P) bool; columns that are not present count as missing.
        """
        frame, coded, mask = self._input(X, present)
        kept = frame.copy()
        with torch.inference_mode(), self._threads():
            added = self.folded_.contributions(coded, mask)
        return Explanation(
            values=self.folded_.shapley(added).numpy(),
            base_values=self.folded_.base.double().numpy() + self.problem_.shift,
            coalitions=self.folded_.coalitions,
            dividends=np.swapaxes(added.numpy(), 0, 1),
            feature_names=self.encoder_.names,
            output_names=self.problem_.output_names,
            data=lambda: kept.to_numpy(dtype=object),
            copy=False,
        )

    def value_spread(self, X: Any) -> Array:
        """How far the members disagree: the standard deviation of their Shapley values, (B, P[, K])."""
        coded = self._coded(X)[1]
        n, net = coded.shape[1], self.network_
        groups = [
            net.player_map(),
            *(F.one_hot(g.players, n).sum(1) > 0 for g in net.unit_groups()),
            net.table_fields(),
        ]
        members = torch.cat(groups).to(coded.dtype)  # (units, P)
        share = members / members.sum(1, keepdim=True)
        with torch.no_grad(), self._threads():
            parts = []
            for start in range(0, len(coded), 1024):
                each = torch.einsum("umbk,up->mbpk", net.contributions(coded[start : start + 1024]), share)
                parts.append(each.std(0, correction=0))
        spread = torch.cat(parts).numpy()
        return np.asarray(spread[:, :, 0] if self.problem_.n_outputs == 1 else spread)

    def game(self, X: Any, row: int = 0) -> Any:
        """The game of one row, played by real predictions: masks (m, P) bool -> raw outputs (m,) or (m, K).

        Absent columns are empty cells of the table here, not masked: the model cannot know what they held.
        """
        one = self._frame(X, reset=False).iloc[row : row + 1]

        def play(masks: NDArray[np.bool_]) -> Array:
            parts = np.array_split(masks, max(1, -(-len(masks) // 4096)))  # all 2^16 at once would take much memory
            return np.concatenate([self._raw(one.iloc[np.zeros(len(part), dtype=int)].where(part)) for part in parts])

        return play

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model to one file; `harsanyinet.load` reads it and runs no code from it."""
        from harsanyinet import storage

        storage.save(self, path)

    def _raw(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Raw outputs, (B,) or (B, K), float64."""
        _, coded, mask = self._input(X, present)
        with torch.inference_mode(), self._threads():
            out = self.folded_.outputs(coded, mask).numpy() + self.problem_.shift
        return np.asarray(out[:, 0] if out.shape[1] == 1 else out)

    def _input(self, X: Any, present: ArrayLike | None) -> tuple[pd.DataFrame, Tensor, Tensor | None]:
        frame, coded = self._coded(X)
        if present is None:
            return frame, coded, None
        array = np.array(present)
        if array.dtype != bool:
            raise TypeError(f"present must be bool, True where a column is there, however: {array.dtype}")
        return frame, coded, check_present(torch.from_numpy(array), len(coded), coded.shape[1])

    def _coded(self, X: Any) -> tuple[pd.DataFrame, Tensor]:
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        return frame, torch.from_numpy(self.encoder_.code(frame, self.folded_.base.numpy().dtype))

    def _frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        """The rows as a frame whose columns are those of the model, checked as scikit-learn would."""
        least = 2 if reset else 1
        if hasattr(X, "columns") and not hasattr(X, "dtype"):
            frame = as_frame(X)
            if reset or list(frame.columns) != self.encoder_.names:
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
        return as_frame(array, None if reset else self.encoder_.names)

    @contextmanager
    def _threads(self, otherwise: int | None = None) -> Iterator[None]:
        """As many threads as `n_jobs` says; without it `otherwise`, or torch's own number."""
        before = torch.get_num_threads()
        wanted = otherwise or before
        if self.n_jobs is not None:
            wanted = self.n_jobs if self.n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + self.n_jobs)
        if wanted == before:
            yield
            return
        torch.set_num_threads(wanted)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


class HarsanyiClassifier(ClassifierMixin, _HarsanyiTable):  # type: ignore[misc]
    """A classifier for tables whose every prediction comes with exact Shapley values.

    Numbers, booleans, text and categories may stand in one frame; NaN and None are absent players. Other markers of a
    missing value, such as "?", must be turned into NaN when the table is read. A category that was not there in `fit`
    counts as absent, with a warning.

    Args:
        members: Networks whose logits are averaged. More are more accurate, one is fastest.
        max_order: The largest set of columns that may act together; 1 gives an additive model. None: no limit.
        interactions: Sets of columns; columns act together only within one of them.
        forbidden: Pairs of columns that never act together.
        monotone: For a column 1 (the logit never falls with it) or -1. Such a column acts alone; for binary targets.
        categorical: Columns of numbers that are categories.
        masked_share: Share of the training rows that are shown with absent columns, so that predictions from some of
            the columns mean something.
        epochs: Passes over the rows; by default, like the three that follow, it depends on how many rows there are.
        learning_rate: At the top of the schedule.
        batch_size: Rows per step.
        dropout: Share of channels left out.
        width: Channels of the units over many columns.
        max_tables: Tables over up to six columns that may be grown on what the rest leaves unexplained.
        class_weight: "balanced", or a weight for each class.
        random_state: The same number gives the same model, to the bit.
        n_jobs: Threads; None for torch's own number.
        device: Where to train; predictions are made on the CPU.
        progress: Whether to show a progress bar.

    Attributes:
        classes_: Labels, sorted.
        feature_importances_: Mean |Shapley value| of each column on training rows.
        encoder_, network_, folded_: The parts of the model.
        history_: Losses of the training.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = HarsanyiClassifier(members=2, random_state=0).fit(X, y)
        >>> model.explain(X[:5]).values.shape
        (5, 4, 3)
    """

    def __init__(
        self,
        *,
        members: int = 8,
        max_order: int | None = None,
        interactions: Sequence[Sequence[str | int]] | None = None,
        forbidden: Sequence[Sequence[str | int]] | None = None,
        monotone: Mapping[str | int, int] | None = None,
        categorical: Sequence[str | int] | None = None,
        masked_share: float = 0.4,
        epochs: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        dropout: float | None = None,
        width: int = 128,
        max_tables: int = 1000,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        progress: bool = True,
    ) -> None:
        super().__init__(
            members=members, max_order=max_order, interactions=interactions, forbidden=forbidden, monotone=monotone,
            categorical=categorical, masked_share=masked_share, epochs=epochs, learning_rate=learning_rate,
            batch_size=batch_size, dropout=dropout, width=width, max_tables=max_tables,
            random_state=random_state, n_jobs=n_jobs, device=device, progress=progress,
        )  # fmt: skip
        self.class_weight = class_weight

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> HarsanyiClassifier:
        """Finds the structure, trains the members, prunes, folds.

        Args:
            X: A frame (pandas, polars) or an array, (B, P).
            y: Labels, (B,).
            sample_weight: (B,), none negative.
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
        if self.monotone and len(self.classes_) > 2:
            raise ValueError(f"monotone needs a binary target, however: y has {len(self.classes_)} classes")
        known = np.isin(labels, self.classes_)
        codes = np.where(known, np.searchsorted(self.classes_, np.where(known, labels, self.classes_[0])), 0)
        if self.class_weight is not None:
            each = compute_class_weight(self.class_weight, classes=self.classes_, y=used)[codes]
            weight = each if weight is None else weight * each
        names = [str(label) for label in self.classes_]
        kind: Any = "binary" if len(names) == 2 else "multiclass"
        outputs = names[1:] if len(names) == 2 else names
        problem = Problem(kind, outputs, [0.0] * len(outputs), [1.0] * len(outputs))
        self._fit_table(X, codes[:, None].astype(np.float64), weight, problem)
        return self

    def decision_function(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Logits: (B,) for classes_[1] of two, (B, K) otherwise. `present` (P,) or (B, P) masks columns."""
        return self._raw(X, present)

    def predict_proba(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Probabilities of the classes, (B, K)."""
        raw = self._raw(X, present).astype(np.float64)
        if raw.ndim == 1:
            positive = expit(raw)
            return np.column_stack([1 - positive, positive])
        return np.asarray(softmax(raw, axis=1))

    def predict(self, X: Any, present: ArrayLike | None = None) -> Array:
        """The likeliest class of each row."""
        raw = self._raw(X, present)
        chosen = (raw > 0).astype(int) if raw.ndim == 1 else raw.argmax(1)
        return np.asarray(self.classes_[chosen])


class HarsanyiRegressor(RegressorMixin, _HarsanyiTable):  # type: ignore[misc]
    """A regressor for tables whose every prediction comes with exact Shapley values.

    Columns are treated as by `HarsanyiClassifier`, and so are the parameters that the two share.

    Args:
        loss: "squared" (the mean), "absolute" (the median), "quantile", or "poisson" (counts; the raw output is the
            logarithm of the mean).
        quantile: For the quantile loss.
        members: See `HarsanyiClassifier`, as for all that follow.
        max_order: The largest set of columns that may act together.
        interactions: Sets of columns to act within.
        forbidden: Pairs of columns that never act together.
        monotone: For a column 1 or -1.
        categorical: Columns of numbers that are categories.
        masked_share: Share of the training rows with absent columns.
        epochs: Passes over the rows.
        learning_rate: At the top of the schedule.
        batch_size: Rows per step.
        dropout: Share of channels left out.
        width: Channels of the units over many columns.
        max_tables: Tables over up to six columns that may be grown on what the rest leaves unexplained.
        random_state: The same number gives the same model.
        n_jobs: Threads.
        device: Where to train.
        progress: Whether to show a progress bar.

    Attributes:
        feature_importances_: Mean |Shapley value| of each column on training rows.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> model = HarsanyiRegressor(members=2, random_state=0).fit(X, X[:, 0] + X[:, 1] ** 2)
        >>> model.predict(X[:3], present=[True, False]).shape
        (3,)
    """

    def __init__(
        self,
        *,
        loss: LossName = "squared",
        quantile: float = 0.5,
        members: int = 8,
        max_order: int | None = None,
        interactions: Sequence[Sequence[str | int]] | None = None,
        forbidden: Sequence[Sequence[str | int]] | None = None,
        monotone: Mapping[str | int, int] | None = None,
        categorical: Sequence[str | int] | None = None,
        masked_share: float = 0.4,
        epochs: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        dropout: float | None = None,
        width: int = 128,
        max_tables: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        progress: bool = True,
    ) -> None:
        super().__init__(
            members=members, max_order=max_order, interactions=interactions, forbidden=forbidden, monotone=monotone,
            categorical=categorical, masked_share=masked_share, epochs=epochs, learning_rate=learning_rate,
            batch_size=batch_size, dropout=dropout, width=width, max_tables=max_tables,
            random_state=random_state, n_jobs=n_jobs, device=device, progress=progress,
        )  # fmt: skip
        self.loss = loss
        self.quantile = quantile

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> HarsanyiRegressor:
        """Finds the structure, trains the members, prunes, folds.

        Args:
            X: A frame (pandas, polars) or an array, (B, P).
            y: Numbers, (B,) or (B, K) for several targets.
            sample_weight: (B,), none negative.
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
        used = targets if weight is None else targets[weight > 0]
        self._fit_table(X, targets, weight, Problem.of_numbers(self.loss, used, names, self.quantile))
        return self

    def predict(self, X: Any, present: ArrayLike | None = None) -> Array:
        """Predictions, (B,) or (B, K); `present` (P,) or (B, P) masks columns."""
        raw = self._raw(X, present).astype(np.float64)
        if self.problem_.kind == "poisson":
            raw = np.exp(raw)
        return raw if self.one_target_ or raw.ndim == 2 else raw[:, None]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


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
