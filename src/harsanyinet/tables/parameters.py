"""What the parameters of an estimator for tables may be. Those about columns are checked again when these are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np

LossName = Literal["squared", "absolute", "poisson", "quantile"]

_TINY = math.ulp(0.0)
_COLUMNS = "names or numbers of columns"


def _count(value: object, least: int = 1, most: float = math.inf) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most


def _within(value: object, low: float, high: float) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and low <= float(value) <= high


def _several(value: object) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, str)


def _sets(value: Any) -> bool:
    return _several(value) and all(map(_several, value))


def _one_of(value: object, known: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in known


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


_share = partial(_within, low=_TINY, high=1)

CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "max_iter": (_or_none(_count), "be a positive integer or None"),
    "learning_rate": (_or_none(partial(_within, low=_TINY, high=10)), "be positive or None"),
    "max_depth": (partial(_count, most=8), "be an integer from 1 to 8"),
    "max_order": (_count, "be a positive integer"),
    "max_bins": (partial(_count, least=4, most=255), "be an integer from 4 to 255"),
    "l2_regularization": (partial(_within, low=_TINY, high=1e12), "be positive"),
    "max_samples": (_or_none(_share), "be in (0, 1], or None"),
    "max_features": (_or_none(_share), "be in (0, 1], or None"),
    "copies": (_or_none(partial(_count, least=0)), "be zero, a positive integer or None"),
    "members": (_count, "be a positive integer"),
    "missing": (partial(_one_of, known=("auto", "value", "absent")), "be auto, value or absent"),
    "categorical_features": (_or_none(_several), f"be {_COLUMNS}, or None"),
    "date_features": (lambda v: v == "auto" if isinstance(v, str) else _several(v), f"be 'auto', or {_COLUMNS}"),
    "groups": (_or_none(lambda v: isinstance(v, Mapping)), f"be a dict of {_COLUMNS}, or None"),
    "interaction_cst": (
        _or_none(lambda v: _sets(v) or _one_of(v, ("pairwise", "no_interactions"))),
        f"be sets of {_COLUMNS}, 'pairwise', 'no_interactions', or None",
    ),
    "forbidden": (_or_none(_sets), f"be pairs of {_COLUMNS}, or None"),
    "monotonic_cst": (_or_none(_several), "be a dict of columns, or numbers, or None"),
    "early_stopping": (lambda v: isinstance(v, bool | np.bool_), "be True or False"),
    "validation_fraction": (partial(_within, low=_TINY, high=1 - 2**-53), "be in (0, 1)"),
    "n_iter_no_change": (_count, "be a positive integer"),
    "max_seconds": (_or_none(partial(_within, low=_TINY, high=math.inf)), "be positive or None"),
    "n_jobs": (
        _or_none(lambda v: isinstance(v, Integral) and v != 0),
        "be a number of threads, negative to count from all of them, or None",
    ),
    "loss": (partial(_one_of, known=get_args(LossName)), f"be one of {', '.join(get_args(LossName))}"),
    "quantile": (partial(_within, low=_TINY, high=1 - 2**-53), "lie between 0 and 1"),
}
"""For each parameter whether a value fits, and what it must be."""


def check_parameters(given: Mapping[str, Any]) -> None:
    """Raises one sentence for the first parameter that cannot be meant."""
    for name, (fits, wanted) in CHECKS.items():
        if name in given and not fits(given[name]):
            raise ValueError(f"{name} must {wanted}, however: {name}={given[name]!r}")
