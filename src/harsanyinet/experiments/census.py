"""Census in numbers: the paper's coding, and one with a group of columns for each variable."""

from __future__ import annotations

from dataclasses import dataclass
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
    return _tensor(x_train), classes(split.y_train, split), _tensor(x_test), classes(split.y_test, split)


def classes(y: pd.Series, split: TableSplit) -> Tensor:
    """Class numbers in the order of the sorted labels."""
    levels = sorted(set(split.y_train))
    return torch.tensor([levels.index(label) for label in y])


@dataclass(frozen=True)
class Coding:
    """Columns for the presence gate: numbers standardised and cut into bins, categories one-hot, NaN where missing.

    Attributes:
        columns: The player of each column.
    """

    columns: list[int]
    names: list[str]
    _parts: list[tuple[float, float, NDArray[np.float64]] | list[str]]

    @classmethod
    def fit(cls, frame: pd.DataFrame, n_bins: int = 24) -> Coding:
        """Learns means, bin edges (quantiles) and levels from the training rows."""
        columns: list[int] = []
        parts: list[tuple[float, float, NDArray[np.float64]] | list[str]] = []
        for player, name in enumerate(frame.columns):
            column = frame[name]
            if column.dtype.kind in "biuf":
                numbers = column.dropna().to_numpy(dtype=np.float64)
                cuts = np.linspace(0, 1, n_bins + 1)[1:-1]  # of the rows, and of the distinct values where few repeat
                edges = np.unique(np.r_[np.quantile(numbers, cuts), np.quantile(np.unique(numbers), cuts)])
                parts.append((float(numbers.mean()), float(numbers.std()) or 1.0, edges))
                columns += [player] * (len(edges) + 2)
            else:
                levels = sorted(map(str, column.dropna().unique()))
                parts.append(levels)
                columns += [player] * len(levels)
        return cls(columns, list(map(str, frame.columns)), parts)

    def transform(self, frame: pd.DataFrame) -> Tensor:
        """(B, D) float32; all columns of a player are NaN where it is missing or unknown."""
        blocks = []
        for name, part in zip(self.names, self._parts, strict=True):
            column = frame[name]
            if isinstance(part, tuple):
                mean, std, edges = part
                numbers = column.to_numpy(dtype=np.float64)
                one_hot = np.eye(len(edges) + 1)[np.searchsorted(edges, numbers, side="right")]
                block = np.column_stack([(numbers - mean) / std, one_hot])
                block[np.isnan(numbers)] = np.nan
            else:
                codes = column.map({level: code for code, level in enumerate(part)}).to_numpy(dtype=np.float64)
                missing = np.isnan(codes)
                block = np.eye(len(part))[np.where(missing, 0, codes).astype(int)]
                block[missing] = np.nan
            blocks.append(block)
        return _tensor(np.hstack(blocks)).float()


def _tensor(array: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
