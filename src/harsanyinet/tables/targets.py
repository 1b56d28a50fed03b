"""What is to be predicted, as arrays: labels, numbers, and the weights of the rows. One sentence for wrong ones."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_non_negative

Array = NDArray[Any]


def as_labels(y: ArrayLike) -> Array:
    """Labels as a one-dimensional array, (B,)."""
    if y is None:
        raise ValueError("this classifier requires y to be passed, but the target y is None")
    values = column_or_1d(y, warn=True)
    if values.dtype.kind in "fc":
        assert_all_finite(values, input_name="y")
    if values.dtype == object:
        if n_missing := int(pd.isna(values).sum()):
            raise ValueError(f"y must have a label in every row, however: {n_missing} are missing")
        if len({type(v) for v in values}) > 1:
            kinds = sorted({type(v).__name__ for v in values})
            raise ValueError(f"y must hold labels of one type, however: {' and '.join(kinds)}")
    check_classification_targets(values)
    return np.asarray(values)


def as_targets(y: ArrayLike) -> tuple[Array, list[str]]:
    """Numbers to predict as float64, (B,) or (B, K), and the names of the outputs."""
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


def as_weights(sample_weight: ArrayLike | None, n_rows: int) -> Array | None:
    """Weights of the rows as float64, (B,), none negative and some positive; None where none are given."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        weight = np.full(n_rows, float(sample_weight))
    else:
        weight = np.asarray(
            check_array(sample_weight, ensure_2d=False, allow_nd=True, dtype=np.float64, input_name="sample_weight")
        )
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight must be one number for each of {n_rows} rows, however: shape {weight.shape}")
    check_non_negative(weight, "`sample_weight`")
    if not weight.any():
        raise ValueError("sample_weight must be somewhere positive, however: it is zero everywhere")
    return weight
