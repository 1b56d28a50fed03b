"""Explanations to draw, and what stands in a figure."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np

from harsanyinet import Explanation

SETS = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]

DIVIDENDS = np.array(
    [
        [1.0, -2.0, 0.5, 4.0, -1.0, 3.0],
        [0.0, 1.0, 0.0, -2.0, 0.0, 0.6],
        [2.0, 0.0, -1.0, 0.0, 2.0, 0.0],
    ]
)

NAMES = ["age", "work = class", "cost ($) of ($)", "unused"]

DATA = np.array(
    [[39.0, "State-gov", None, True], [np.nan, "Private", 77516.0, False], [50.25, "a=b $x$", 3, True]], dtype=object
)


def masks(sets, n):
    out = np.zeros((len(sets), n), dtype=bool)
    for line, members in enumerate(sets):
        out[line, list(members)] = True
    return out


def explanation(outputs=1, data=DATA, **settings):
    """Three rows over four features, of which nothing contains the last; output k is (k + 1) times output 0, signed."""
    factors = np.array([1.0, -2.0, 3.0])[:outputs]
    return Explanation(
        base_values=0.25 * factors,
        coalitions=masks(SETS, 4),
        dividends=DIVIDENDS[:, :, None] * factors,
        feature_names=NAMES,
        output_names=["income", "loss", "tax"][:outputs],
        data=data,
        **settings,
    )


def shapley(row, factor=1.0):
    phi = np.zeros(4)
    for members, dividend in zip(SETS, DIVIDENDS[row], strict=True):
        for i in members:
            phi[i] += factor * dividend / len(members)
    return phi


def many(n=30, rows=6, scale=1.0, name="a_rather_long_feature_name_{:03d}", outputs=1):
    """Random dividends of single features and neighbours."""
    rng = np.random.default_rng(0)
    sets = [(i,) for i in range(n)] + [(i, i + 1) for i in range(n - 1)]
    return Explanation(
        base_values=np.zeros(outputs),
        coalitions=masks(sets, n),
        dividends=scale * rng.normal(size=(rows, len(sets), outputs)),
        feature_names=[name.format(i) for i in range(n)],
        data=rng.normal(size=(rows, n)),
    )


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def shown_texts(figure):
    """Every text that is drawn, with its extent in pixels."""
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text().strip()]
    hidden = [label for ax in figure.axes if not ax.axison for label in ax.get_xticklabels() + ax.get_yticklabels()]
    outside = []  # tick labels beyond the limits of an axis are not drawn
    for ax in figure.axes:
        for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            for tick in axis.get_major_ticks() + axis.get_minor_ticks():
                if not min(low, high) <= tick.get_loc() <= max(low, high):
                    outside += [tick.label1, tick.label2]
    return [(text, text.get_window_extent()) for text in found if text not in hidden and text not in outside]


def check_texts(ax):
    edge = ax.figure.bbox
    found = shown_texts(ax.figure)
    assert len(found) > 1
    for text, box in found:
        inside = edge.x0 - 1 <= box.x0 and box.x1 <= edge.x1 + 1 and edge.y0 - 1 <= box.y0 and box.y1 <= edge.y1 + 1
        assert inside, f"{text.get_text()!r} is cut off"
    low, high = (np.array([getattr(box, side) for _, box in found]) for side in ("min", "max"))  # (texts, 2)
    shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
    for i, j in np.argwhere((shared >= 2).all(axis=2)):  # pixels
        assert i == j, f"{found[i][0].get_text()!r} overlaps {found[j][0].get_text()!r}"
