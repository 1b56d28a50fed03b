"""The predictor says what the estimator says, in a process that has numpy and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, load_predictor
from harsanyinet.files import ModelFileError
from harsanyinet.tables.frames import UnseenCategoryWarning

QUICK = {"max_iter": 30, "learning_rate": 0.1, "random_state": 0, "n_jobs": 1, "progress": False}
FORBIDDEN = ("pandas", "sklearn", "scipy", "numba", "torch", "safetensors", "tqdm", "joblib", "pyarrow")
ALONE = """
import sys, time
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FORBIDDEN:
            raise ModuleNotFoundError(name)
FORBIDDEN = sys.argv[1].split(",")
sys.meta_path.insert(0, Blocker())
import json
from harsanyinet import load_predictor
model = load_predictor(sys.argv[2])
rows = [json.loads(line) for line in open(sys.argv[3])]
first = model.explain(rows[0])
seconds = time.process_time()  # from the start of the interpreter; what others do to the machine does not count
ex = model.explain(rows)
marginal = model.explain(rows, game="marginal")
some = model.explain(rows, model.players[:2])
out = {"seconds": seconds, "predict": model.predict(rows).tolist(), "raw": model.raw_outputs(rows).tolist(),
       "values": ex.values.tolist(), "outputs": ex.outputs.tolist(), "base": ex.base_values.tolist(),
       "marginal": marginal.values.tolist(), "some": some.values.tolist(), "first": first.values.tolist(),
       "loaded": sorted(set(FORBIDDEN) & set(sys.modules))}
if model.classes is not None:
    out["proba"] = model.predict_proba(rows).tolist()
print(json.dumps(out))
"""


def table(n=120):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n), "whole": rng.integers(0, 9, n), "colour": rng.choice(["red", "blue", "green"], n),
            "code": rng.choice([10, 20, 30], n).astype(float), "yes": rng.random(n) < 0.5,
            "day": pd.date_range("2021-01-01", periods=n, freq="7h").strftime("%Y-%m-%d %H:%M:%S"),
        }
    )  # fmt: skip
    frame.loc[::6, "a"] = np.nan
    frame.loc[::8, "colour"] = None
    return frame


SETTINGS = {"categorical_features": ["code"], "date_features": ["day"], **QUICK}
ABSENT = {"missing": "absent", **SETTINGS}


def target(x):
    return x["a"].fillna(0.3) + x["whole"] / 4 + (x["colour"] == "red") * x["yes"] + np.arange(len(x)) / 60


CASES = {
    "binary": lambda x: HarsanyiClassifier(**SETTINGS).fit(x, np.where(target(x) > 2, "high", "low")),
    "classes": lambda x: HarsanyiClassifier(**SETTINGS).fit(x, (target(x) * 2).astype(int).clip(1, 6)),
    "squared": lambda x: HarsanyiRegressor(**SETTINGS).fit(x, target(x)),
    "poisson, absent": lambda x: HarsanyiRegressor(loss="poisson", missing="absent", **SETTINGS).fit(
        x, target(x).abs()
    ),
    "targets": lambda x: HarsanyiRegressor(**SETTINGS).fit(x, np.column_stack([target(x), x["whole"]])),
    "groups": lambda x: HarsanyiRegressor(groups={"g": ["a", "colour"]}, **ABSENT).fit(x, target(x)),
}


def records(x):
    return [{k: v for k, v in row.items() if v == v and v is not None} for row in x.to_dict("records")]


@pytest.mark.parametrize("name", CASES)
def test_alone_with_numpy_it_says_the_same(name, tmp_path):
    x = table()
    model = CASES[name](x)
    model.save(tmp_path / "model.hnet")
    rows = records(x[:40])
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    command = [sys.executable, "-c", ALONE, ",".join(FORBIDDEN), tmp_path / "model.hnet", tmp_path / "rows.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, seen = json.loads(done.stdout), x[:40]
    assert said["loaded"] == []
    ex = model.explain(seen)
    some = model.explain(seen, list(ex.feature_names[:2]))
    for key, expected in (
        ("values", ex.values), ("outputs", ex.outputs), ("base", ex.base_values), ("raw", model.raw_outputs(seen)),
        ("marginal", model.explain(seen, game="marginal").values), ("some", some.values), ("first", ex.values[:1]),
        *([("proba", model.predict_proba(seen))] if hasattr(model, "classes_") else [("predict", model.predict(seen))]),
    ):  # fmt: skip
        assert np.shape(said[key]) == expected.shape, key
        assert np.abs(said[key] - expected).max() <= 1e-12 * np.abs(ex.outputs).max(), key
    assert said["predict"] == model.predict(seen).tolist() or not hasattr(model, "classes_")


@pytest.mark.slow
def test_a_cold_start_is_quick(tmp_path):
    x = table(4000)
    HarsanyiClassifier(**SETTINGS | {"max_iter": 1000}).fit(x, target(x) > 40).save(tmp_path / "model.hnet")
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in records(x[:1])))
    command = [sys.executable, "-c", ALONE, ",".join(FORBIDDEN), tmp_path / "model.hnet", tmp_path / "rows.jsonl"]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    assert min(json.loads(run)["seconds"] for run in runs) < 0.5  # the best of five


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "model.hnet"
    model = CASES["squared"](table())
    model.save(path)
    return model, load_predictor(path), path


def test_cells_of_other_types(small):
    model, predictor, _ = small
    row = table().iloc[1].to_dict()
    for name, values in {
        "a": [np.float32(0.5), 1, True, np.bool_(True), "0.5", pd.NA, None], "code": [10, 10.0, "10", np.int64(20)],
        "day": [datetime(2021, 1, 5, 7), np.datetime64("2021-01-05T07"), "2021-01-05 07:00:00", pd.NaT],
        "colour": [float("nan"), "red"],
    }.items():  # fmt: skip
        for value in values:
            given = row | {name: value}
            frame = pd.DataFrame({key: [cell] for key, cell in given.items()})
            expected = model.explain(pd.concat([frame, frame])).values[:1]
            assert np.abs(predictor.explain(given).values - expected).max() < 1e-12, (name, value)
            assert np.abs(model.explain(given).values - expected).max() < 1e-12, (name, value)


def test_an_unseen_category_counts_as_absent_with_a_warning(small):
    _, predictor, _ = small
    row = records(table())[1]
    with pytest.warns(UnseenCategoryWarning, match="such as 'mauve'"):
        odd = predictor.explain(row | {"colour": "mauve"})
    rest = [name for name in predictor.players if name != "colour"]
    assert (odd.values == predictor.explain(row, rest).values).all()


def test_arrays_of_numbers_many_rows_and_none(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3))
    x[::5, 1] = np.nan
    model = HarsanyiRegressor(**QUICK).fit(x, x[:, 0] + np.nan_to_num(x[:, 1]))
    model.save(tmp_path / "model.hnet")
    predictor = load_predictor(tmp_path / "model.hnet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ex = predictor.explain(x)
    assert np.abs(ex.values - model.explain(x).values).max() < 1e-12
    assert np.abs(predictor.predict(x) - model.predict(x)).max() < 1e-12
    assert predictor.explain([]).values.shape == (0, 3)
    assert predictor.predict(np.empty((0, 3))).shape == (0,)


def test_sentences(small, tmp_path):
    model, predictor, path = small
    with pytest.raises(ValueError, match="a row must name columns of the model, however: 'height'"):
        predictor.predict({"height": 3})
    with pytest.raises(ValueError, match=r"numbers of shape \(rows, 6\)"):
        predictor.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="hold finite numbers"):
        predictor.predict(np.zeros((2, 6)))
    with pytest.raises(TypeError, match="this model predicts numbers"):
        predictor.predict_proba(records(table()[:1]))
    with pytest.raises(ValueError, match="game must be one of"):
        predictor.explain(records(table()[:1]), game="other")
    model.explain(table()[:2]).save(tmp_path / "explanation.hnet")
    with pytest.raises(ModelFileError, match="holds an explanation, not a model of a table"):
        load_predictor(tmp_path / "explanation.hnet")
    (tmp_path / "cut.hnet").write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ModelFileError, match="damaged or cut short"):
        load_predictor(tmp_path / "cut.hnet")
