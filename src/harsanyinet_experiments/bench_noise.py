"""`harsanyinet bench noise`: do values go to the columns that matter, and does v(S) say what S says?

Every line is a number that a reader can hold against the data that made it. One fit takes seconds, so that all are
run anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.explanations.certificate import versions
from harsanyinet_experiments import results

GAMES = ("missing", "marginal")
CASES = {  # rows, columns of noise, the share of their variance that all of them have in common
    "28 columns of noise, 1,000 rows": (1000, 28, 0.0),
    "9 columns of noise, 300 rows": (300, 9, 0.0),
    "9 correlated columns of noise, 300 rows": (300, 9, 0.5),
}
SEEDS = 5
WHAT = (
    "noise: y = (x0 + x1 > 0), all columns standard normal; mean |value| over the training rows of the strongest "
    "column of noise, and of all of them together, relative to the strongest column; iris: the stronger sepal column "
    "relative to the strongest of all, over rows and classes; stand_in: x1 = round(x0), y = x0 + x2 / 2, 2,000 rows: "
    "R2 on 2,000 new rows from x1 alone, of the model that was fitted on all columns and of one that was fitted on x1; "
    "the worst is that over seeds"
)


def run(out: Path, *, quick: bool = False, threads: int = 1) -> str:
    """Fits and measures everything, writes the result file and returns a readable table."""
    out = results.place(out, quick)
    options: dict[str, Any] = {"n_jobs": threads, "progress": False} | ({"max_iter": 30} if quick else {})
    seeds = range(1 if quick else SEEDS)
    noise: dict[str, Any] = {}
    for name, case in CASES.items():
        each = [noise_shares(*case, seed, options) for seed in tqdm(seeds, desc=name)]
        noise[name] = {
            game: {key: _spread([one[game][key] for one in each]) for key in ("strongest", "together")}
            for game in GAMES
        }
    iris = [_iris(seed, options) for seed in seeds]
    stand_in = [_stand_in(seed, options) for seed in tqdm(seeds, desc="a column that stands for another")]
    result = {
        "command": "harsanyinet bench noise", "what": WHAT, "threads": threads, "seeds": list(seeds),
        "versions": versions(), "noise": noise,
        "iris": {game: _spread([one[game] for one in iris]) for game in GAMES},
        "stand_in": {"each": stand_in, "worst_share": min(one["r2"] / one["r2_retrained"] for one in stand_in)},
    }  # fmt: skip
    results.write(out, result)
    return f"{table(result)}\nwritten to {out}"


def noise_shares(
    n: int, n_noise: int, shared: float, seed: int, options: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """What the strongest column of noise gets, and all of them together, relative to the strongest column, by game."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2 + n_noise))
    x[:, 2:] = np.sqrt(shared) * rng.normal(size=(n, 1)) + np.sqrt(1 - shared) * x[:, 2:]
    model = HarsanyiClassifier(random_state=seed, **options).fit(x, x[:, 0] + x[:, 1] > 0)
    games = {}
    for game in GAMES:
        size = mean_size(model, x, game)
        games[game] = {"strongest": float(size[2:].max() / size.max()), "together": float(size[2:].sum() / size.max())}
    return games


def _iris(seed: int, options: dict[str, Any]) -> dict[str, float]:
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True, as_frame=True)
    model = HarsanyiClassifier(random_state=seed, **options).fit(x, y)
    sizes = {game: mean_size(model, x, game) for game in GAMES}
    sepal = x.columns.str.startswith("sepal")
    return {game: float(size[sepal].max() / size.max()) for game, size in sizes.items()}


def _stand_in(seed: int, options: dict[str, Any]) -> dict[str, float]:
    from sklearn.metrics import r2_score

    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(4000, 3)), columns=["x0", "x1", "x2"])
    x["x1"] = x["x0"].round()
    y = x["x0"] + x["x2"] / 2
    whole = HarsanyiRegressor(random_state=seed, **options).fit(x[:2000], y[:2000])
    alone = HarsanyiRegressor(random_state=seed, **options).fit(x[["x1"]][:2000], y[:2000])
    return {
        "r2": r2_score(y[2000:], whole.predict(x[2000:], present=[False, True, False])),
        "r2_retrained": r2_score(y[2000:], alone.predict(x[["x1"]][2000:])),
    }


def mean_size(model: HarsanyiClassifier, x: Any, game: Any) -> NDArray[Any]:
    """The mean |value| of each column over rows and outputs."""
    values = np.abs(model.explain(x, game=game).values)
    return np.asarray(values.mean(axis=(0, *range(2, values.ndim))))


def _spread(values: list[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "worst": float(np.max(values))}


def table(result: dict[str, Any]) -> str:
    """One line per case and game: mean over seeds, and the worst."""
    lines = [f"{'per cent of the strongest column':<42}{'game':<10}{'strongest':>18}{'all together':>18}"]
    for name, games in result["noise"].items():
        for game, row in games.items():
            lines.append(f"{name:<42}{game:<10}{_percent(row['strongest']):>18}{_percent(row['together']):>18}")
    lines += [f"{'iris, sepal columns':<42}{game:<10}{_percent(row):>18}" for game, row in result["iris"].items()]
    share = f"{100 * result['stand_in']['worst_share']:.1f} %"
    return "\n".join([*lines, f"a column that stands for another: at worst {share} of the R2 of a model of its own"])


def _percent(row: dict[str, float]) -> str:
    return f"{100 * row['mean']:.1f} ({100 * row['worst']:.1f})"
