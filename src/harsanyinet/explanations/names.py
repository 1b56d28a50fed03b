"""Names of features, outputs and rows: what they are by default, where one stands, who is present. No numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

Masks = NDArray[np.bool_]


def different_names(given: Sequence[Any] | None, default: Sequence[str], what: str) -> list[str]:
    """The given names as text, or the default ones; they must be as many as those, and differ."""
    names = list(default) if given is None else [str(name) for name in given]
    if len(names) != len(default) or len(set(names)) != len(names):
        raise ValueError(f"{what} must be {len(default)} different names, however: {names}")
    return names


def find_name(item: str | int, names: Sequence[str], what: str) -> int:
    """The position of one of several names, given as such or as a position; errors say `what` they name: "feature"."""
    if isinstance(item, bool | np.bool_):
        raise TypeError(f"a {what} is named or numbered, however: a mask was given")
    if isinstance(item, int | np.integer):
        if not 0 <= item < len(names):
            raise ValueError(f"{what} must lie between 0 and {len(names) - 1}, however: {item}")
        return int(item)
    if item not in names:
        close = get_close_matches(str(item), names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(names[:12])}"
        raise ValueError(f"unknown {what} {item!r}{hint}")
    return list(names).index(item)


def find_features(features: Sequence[str | int], names: Sequence[str]) -> list[int]:
    """The positions of several features, each named once, in the order in which they are named."""
    if isinstance(features, str):
        raise TypeError(f"features come as a list of names or positions, however: the string {features!r}")
    chosen = [find_name(feature, names, "feature") for feature in features]
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"each feature may be named once, however: {list(features)}")
    return chosen


def find_groups(groups: Mapping[str, Sequence[str | int]], names: Sequence[str]) -> Masks:
    """Which features each group holds, (G, P) bool; every feature must be in exactly one group."""
    masks = np.zeros((len(groups), len(names)), dtype=bool)
    for line, (name, members) in enumerate(groups.items()):
        chosen = find_features(members, names)
        if not chosen:
            raise ValueError(f"each group needs a feature, however: group {name!r} is empty")
        masks[line, chosen] = True
    counts = masks.sum(axis=0)
    for wrong, where in ((counts > 1, "several groups"), (counts == 0, "none")):
        if wrong.any():
            some = [name for name, one in zip(names, wrong, strict=True) if one]
            raise ValueError(f"groups must hold every feature exactly once, however: {some} in {where}")
    return masks


def find_row(row: int | Hashable, labels: Sequence[Hashable] | pd.Index[Any] | None, n_rows: int) -> int:
    """The position of a row, given by its label or by an integer: a position, which may be counted from the end."""
    if isinstance(row, int | np.integer) and not isinstance(row, bool):
        if not -n_rows <= row < n_rows:
            raise IndexError(f"row must lie between 0 and {n_rows - 1}, however: row={row}")
        return int(row) % n_rows
    if labels is None:
        raise ValueError(f"row must be a position, since the rows have no labels, however: row={row!r}")
    places = [i for i, label in enumerate(labels) if label == row]
    if len(places) != 1:
        some = ", ".join(repr(label) for label in labels[:5])
        what = "several rows have" if places else "no row has"
        raise ValueError(f"row must be a position or a label, such as {some}, however: {what} {row!r}")
    return places[0]


def name_output(names: Sequence[str], output: int, scale: str | None) -> str:
    """What an output is called, "log-odds of yes": by the names of all outputs and the scale that they share."""
    if scale is None:
        return names[output]
    return scale if list(names) == ["output"] else f"{scale} of {names[output]}"


def check_present(
    present: ArrayLike, n_rows: int | None, n_players: int, wanted: str = "bool, True where a feature is there"
) -> Masks:
    """Masks of who is present, checked: bool, (P,) for all rows or (B, P); an error says what is `wanted`.

    `n_rows` is None where any number of masks will do.
    """
    masks = np.asarray(present)
    if masks.dtype != bool:
        raise TypeError(f"present must be {wanted}, however: {masks.dtype}")
    if n_rows is None:
        n_rows = len(masks) if masks.ndim == 2 else 1
    check_mask_shape(masks.shape, n_rows, n_players)
    return masks


def check_mask_shape(shape: tuple[int, ...], n_rows: int, n_players: int) -> None:
    """Refuses masks that are neither (P,) nor (B, P)."""
    if shape not in ((n_players,), (n_rows, n_players)):
        raise ValueError(f"present must have shape ({n_players},) or ({n_rows}, {n_players}), however: {shape}")
