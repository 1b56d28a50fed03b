"""Census in numbers: the paper's coding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    import pandas as pd

    from harsanyinet.datasets import TableSplit


def label_coded(split: TableSplit) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The paper's coding: categories by number, every column standardised on the training rows. float64.

    NOTE[DIFF]: categories are numbered on the training rows and looked up in the test rows; the authors' code numbers
    the two apart, which scrambles the codes.

    Returns:
        x_train (B, 12), y_train (B,), x_test, y_test.
    """
    train, test = split.train.copy(), split.test.copy()
    for name in train.columns:
        if train[name].dtype.kind not in "biuf":
            levels = {level: code for code, level in enumerate(sorted(train[name].dropna().unique()))}
            train[name] = train[name].map(levels)
            test[name] = test[name].map(levels)
    mean, std = train.mean(), train.std(ddof=0)
    x_train, x_test = (((part - mean) / std).to_numpy(dtype=np.float64) for part in (train, test))
    return _tensor(x_train), _classes(split.y_train, split), _tensor(x_test), _classes(split.y_test, split)


def _classes(y: pd.Series, split: TableSplit) -> Tensor:
    """Class numbers in the order of the sorted labels."""
    levels = sorted(set(split.y_train))
    return torch.tensor([levels.index(label) for label in y])


def _tensor(array: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
