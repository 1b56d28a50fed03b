"""Predict, explain, score and verify: tables from file to file, through the command line."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from shop_files import FEATURES, SMALL, run, shop, table

import harsanyinet
from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, load, save, verify
from harsanyinet.batch import runs
from harsanyinet.tables.tree_games import TreeDividends
from harsanyinet.tables.trees import Trees


@pytest.mark.parametrize("target", ["bought", "kind", "price"])
@pytest.mark.parametrize("command", ["predict", "explain"])
@pytest.mark.needs("pyarrow")
def test_chunks_and_formats_and_the_order_of_columns_change_nothing(store, tmp_path, capsys, command, target):
    model = store / f"{target}.hnet"
    code, out, err = run(capsys, command, model, store / "shop.csv")
    assert (code, err) == (0, "")
    whole = table(out)
    assert len(whole) == 200
    turned = shop()[["price", "new", "count", "zip", "size", "colour"]].assign(more="x")
    turned.to_csv(tmp_path / "turned.csv.gz", index=False)
    for data, out_name, chunk in (
        (store / "shop.csv", "o.csv", 7),
        (store / "shop.parquet", "o.parquet", 33),
        (tmp_path / "turned.csv.gz", "o.tsv.gz", 1000),
    ):
        code, out, err = run(capsys, command, model, data, "-o", tmp_path / out_name, "--chunk", chunk)
        assert (code, out, err) == (0, "", "")
        path = tmp_path / out_name
        found = (
            pd.read_parquet(path)
            if path.suffix == ".parquet"
            else pd.read_csv(path, sep="\t" if "tsv" in out_name else ",")
        )
        pd.testing.assert_frame_equal(found, whole, rtol=1e-12, atol=1e-12, check_dtype=False)


def test_predictions_are_those_of_python(store, capsys):
    frame = shop()[FEATURES]
    for target in ("bought", "kind"):
        model = load(store / f"{target}.hnet")
        found = table(run(capsys, "predict", store / f"{target}.hnet", store / "shop.csv")[1])
        assert list(found.columns) == ["prediction", *(f"probability of {label}" for label in model.classes_)]
        assert found["prediction"].tolist() == model.predict(frame).tolist()
        np.testing.assert_allclose(found.iloc[:, 1:], model.predict_proba(frame), rtol=1e-12)
    found = table(run(capsys, "predict", store / "price.hnet", store / "shop.csv")[1])
    assert list(found.columns) == ["prediction"]
    np.testing.assert_allclose(found["prediction"], load(store / "price.hnet").predict(frame), rtol=1e-12)


def test_explanations_are_those_of_python(store, tmp_path, capsys):
    frame = shop()[FEATURES]
    model = load(store / "bought.hnet")
    found = table(run(capsys, "explain", store / "bought.hnet", store / "shop.csv")[1])
    assert list(found.columns) == ["base value", *FEATURES, "log-odds of yes"]  # says of which class
    np.testing.assert_allclose(found[FEATURES], model.explain(frame).values, rtol=1e-12)
    np.testing.assert_allclose(found["log-odds of yes"], model.decision_function(frame), rtol=1e-12)
    np.testing.assert_allclose(found.iloc[:, :-1].sum(axis=1), found["log-odds of yes"], rtol=1e-12)
    mean = table(run(capsys, "explain", store / "bought.hnet", store / "shop.csv", "--game", "marginal")[1])
    marginal = model.explain(frame, game="marginal")
    np.testing.assert_allclose(mean[FEATURES], marginal.values, rtol=1e-12)
    np.testing.assert_allclose(mean["base value"], np.full(200, marginal.base_values), rtol=1e-12)
    assert np.abs(mean[FEATURES] - found[FEATURES]).to_numpy().max() > 0.01
    found = table(run(capsys, "explain", store / "kind.hnet", store / "shop.csv")[1])
    assert list(found.columns) == [f"{k}: {name}" for k in "012" for name in ("base value", *FEATURES, "output")]
    np.testing.assert_allclose(
        found[[f"2: {f}" for f in FEATURES]], load(store / "kind.hnet").explain(frame).values[:, :, 2], rtol=1e-12
    )


def test_columns_named_like_ours_and_several_targets(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 2)), columns=["output", "base value"])
    targets = pd.DataFrame({"a": frame["output"], "b": frame["base value"]})
    HarsanyiRegressor(max_iter=5, random_state=0, progress=False).fit(frame, targets).save(tmp_path / "m.hnet")
    frame.to_csv(tmp_path / "d.csv", index=False)
    found = table(run(capsys, "predict", tmp_path / "m.hnet", tmp_path / "d.csv")[1])
    assert list(found.columns) == ["prediction of a", "prediction of b"]
    found = table(run(capsys, "explain", tmp_path / "m.hnet", tmp_path / "d.csv")[1])
    assert list(found.columns)[:4] == ["a: base value_", "a: output", "a: base value", "a: output_"]
    assert len(found.columns) == 8


def test_a_model_without_names(tmp_path, capsys):
    x = np.random.default_rng(0).normal(size=(80, 2))
    model = HarsanyiRegressor(max_iter=5, random_state=0, progress=False).fit(x, x[:, 0])
    model.save(tmp_path / "m.hnet")
    pd.DataFrame(x, columns=["x0", "x1"]).to_csv(tmp_path / "d.csv", index=False)
    code, out, err = run(capsys, "predict", tmp_path / "m.hnet", tmp_path / "d.csv")
    assert (code, err) == (0, "")
    np.testing.assert_allclose(table(out)["prediction"], model.predict(x), rtol=1e-12)
    assert run(capsys, "verify", tmp_path / "m.hnet", tmp_path / "d.csv")[0] == 0


def test_unseen_categories_are_counted_over_all_chunks(store, tmp_path, capsys):
    shop().assign(colour=["pink", "red"] * 100).to_csv(tmp_path / "new.csv", index=False)
    code, _, err = run(capsys, "predict", store / "bought.hnet", tmp_path / "new.csv", "--chunk", 30)
    assert code == 0
    assert err == (
        "harsanyinet: column 'colour' holds categories that were not there in fit, such as 'pink', in 100 rows; they "
        "count as absent\n"
    )
    assert (
        run(capsys, "verify", store / "bought.hnet", tmp_path / "new.csv", "--max-rows", 4)[2].count("in 2 rows") == 1
    )


def test_missing_markers_when_predicting(store, tmp_path, capsys):
    frame = shop()[FEATURES]
    frame.fillna({"colour": "?"}).assign(size=frame["size"].fillna(-999)).to_csv(tmp_path / "new.csv", index=False)
    plain = run(capsys, "predict", store / "bought.hnet", store / "shop.csv")[1]
    assert run(capsys, "predict", store / "bought.hnet", tmp_path / "new.csv", "--missing", "?,-999") == (0, plain, "")
    for command in ("explain", "verify"):
        assert run(capsys, command, store / "bought.hnet", tmp_path / "new.csv", "--missing", "?,-999")[0] == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
def test_an_interrupted_prediction_leaves_nothing(store, tmp_path, capsys, monkeypatch, error):
    real, calls = HarsanyiClassifier.predict_proba, []

    def fails(self, x):
        calls.append(len(x))
        if len(calls) == 3:
            raise error
        return real(self, x)

    monkeypatch.setattr(HarsanyiClassifier, "predict_proba", fails)
    (tmp_path / "out.csv").write_text("old")
    code, out, err = run(
        capsys, "predict", store / "bought.hnet", store / "shop.csv", "-o", tmp_path / "out.csv", "--chunk", 50
    )
    assert calls == [50, 50, 50]
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert out == ""
    assert err.count("\n") == 1
    assert (tmp_path / "out.csv").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("target", ["bought", "kind", "price"])
def test_verify_a_table_model(store, tmp_path, capsys, target):
    arguments = ("verify", store / f"{target}.hnet", store / "shop.csv", "--max-rows", 3)
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert out.startswith(f"PASSED: 3 rows, 5 players, {3 if target == 'kind' else 1} outputs")
    assert "tolerance 1e-12" in out
    code, again, _ = run(capsys, *arguments, "--double", "-o", tmp_path / "c.json")  # float64 as it is
    assert (code, again) == (0, out)
    assert json.loads((tmp_path / "c.json").read_text())["passed"] is True
    model = load(store / f"{target}.hnet")
    assert verify(model, shop()[FEATURES], max_rows=2, progress=False).passed


@pytest.mark.parametrize("broken", ["values", "coalitions", "reads more"])
def test_verify_notices_a_wrong_table_model(store, capsys, monkeypatch, broken):
    if broken == "values":
        spread = TreeDividends.spread
        monkeypatch.setattr(TreeDividends, "spread", lambda self, key, w: np.roll(spread(self, key, w), 1, axis=1))
    elif broken == "coalitions":
        monkeypatch.setattr(TreeDividends, "coalitions", property(lambda self: self.game.coalitions[:, ::-1]))
    else:  # an absent column is seen all the same
        monkeypatch.setattr(Trees, "masked", lambda self, bins, present: np.maximum(bins, 1))
    code, out, _ = run(capsys, "verify", store / "bought.hnet", store / "shop.csv", "--max-rows", 3)
    assert code == 1
    assert out.startswith("FAILED")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nowhere.csv", "--target", "y"], "cannot read nowhere.csv: there is no such file"),
        (["fit", "empty.csv", "--target", "y"], "empty.csv must start with a line of column names"),
        (["fit", "names.csv", "--target", "y"], "names.csv must have at least one row"),
        (["fit", "shop.csv", "--target", "nope"], "shop.csv has no column 'nope'; it has 'size', 'colour'"),
        (["fit", "shop.csv", "--target", "price", "--drop", "siez"], "shop.csv has no column 'siez'"),
        (["fit", "small.csv", "--target", "one"], "at least two classes"),
        (["fit", "small.csv", "--target", "none"], "'none' of small.csv must hold something to predict"),
        (["fit", "small.csv", "--target", "infinite"], "the target must hold finite numbers"),
        (["fit", "small.csv", "--target", "y"], "column 'infinite' contains infinity"),
        (["fit", "small.csv", "--target", "odd"], "'odd' holds numbers and '?'; name it as missing"),
        (["fit", "shop.csv", "--target", "bought", "--loss", "squared"], "must hold numbers, however: 'bought' holds"),
        (["fit", "shop.csv", "--target", "price", "--task", "classification"], "classes must be text or whole numbers"),
        (["fit", "shop.csv", "--target", "kind", "--task", "classification", "--loss", "squared"], "loss is a setting"),
        (["fit", "shop.csv", "--target", "price", "--quantile", "0.9"], "a quantile needs the loss quantile"),
        (["fit", "shop.csv", "--target", "price", "-o", "no/m.hnet"], "there is no folder"),
        (["fit", "shop.csv", "--target", "price", "-o", "folder.csv"], "it is a folder"),
        (["fit", "one.csv", "--target", "a"], "must have a column besides the target"),
        (["predict", "bought.hnet", "nowhere.csv"], "cannot read nowhere.csv: there is no such file"),
        (["predict", "nowhere.hnet", "shop.csv"], "cannot load a model from nowhere.hnet"),
        (["predict", "shop.csv", "shop.csv"], "is not a safetensors file"),
        (["predict", "mlp.hnet", "shop.csv"], "mlp.hnet must hold a model of a table, however: it holds a HarsanyiMLP"),
        (["predict", "bought.hnet", "small.csv"], "small.csv: the table must have the columns"),
        (
            ["predict", "bought.hnet", "wrong.csv"],
            "wrong.csv: column 'size' must hold finite numbers, as it did in fit",
        ),
        (["predict", "bought.hnet", "shop.csv", "-o", "o.xlsx"], "a table file must have a name that ends in"),
        (["predict", "bought.hnet", "shop.csv", "-o", "no/o.csv"], "there is no folder"),
        (["predict", "bought.hnet", "shop.csv", "--chunk", "0"], "must be positive, however: 0"),
        (["explain", "bought.hnet", "empty.csv"], "empty.csv must start with a line of column names"),
        (["explain", "bought.hnet", "names.csv"], "names.csv: the table must have the columns"),
        (["verify", "bought.hnet", "small.csv"], "small.csv: the table must have the columns"),
        (["verify", "bought.hnet", "shop.csv", "--max-rows", "0"], "must be positive, however: 0"),
    ],
)
def test_wrong_input_gets_one_line(store, tmp_path, capsys, monkeypatch, arguments, message):
    for path in store.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    if "mlp.hnet" in arguments:
        save(pytest.importorskip("torch") and harsanyinet.HarsanyiMLP(4, 2).eval(), "mlp.hnet")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "names.csv").write_text("x,y\n")
    (tmp_path / "one.csv").write_text("a\n1\n2\n")
    shop().assign(size="big").to_csv("wrong.csv", index=False)
    small = pd.DataFrame({"one": 1, "none": None, "infinite": [1.5, np.inf] * 9, "y": [0, 1] * 9})
    small.assign(odd=["1.5", "2.5", "?"] * 6).to_csv("small.csv", index=False)
    before = sorted(p.name for p in tmp_path.iterdir())
    given = ["-o", "new.hnet"] if arguments[0] == "fit" and "-o" not in arguments else []
    code, out, err = run(capsys, *arguments, *given)
    assert code == 2
    assert out == ""
    said = err.splitlines()
    assert message in said[-1]
    assert all(line.startswith("harsanyinet: ") for line in said)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize("link", ["itself", "relative", "symbolic", "hard"])
@pytest.mark.parametrize("command", ["fit", "predict", "explain", "verify"])
def test_an_input_is_never_replaced(store, tmp_path, capsys, monkeypatch, command, link):
    for name in ("shop.csv", "bought.hnet"):
        (tmp_path / name).write_bytes((store / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harsanyinet.batch.fit_files.read_table", None)  # it is refused before any work
    monkeypatch.setattr("harsanyinet.loading.load", None)
    given = ["shop.csv", "--target", "bought"] if command == "fit" else ["bought.hnet", "shop.csv"]
    for name in ("shop.csv",) if command == "fit" else ("shop.csv", "bought.hnet"):
        out = {"itself": name, "relative": f"../{tmp_path.name}/{name}"}.get(link, f"link-{name}.csv")
        if link == "symbolic":
            (tmp_path / out).symlink_to(name)
        elif link == "hard":
            (tmp_path / out).hardlink_to(tmp_path / name)
        code, text, err = run(capsys, command, *given, "-o", out)
        assert (code, text) == (2, "")
        assert err == (
            f"harsanyinet: the output must be another file than the input, however: {out} is {name}, which would be "
            "lost; give another path\n"
        )
        assert (tmp_path / name).read_bytes() == (store / name).read_bytes()


@pytest.mark.parametrize("command", ["fit", "predict", "explain", "verify"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(store, capsys, monkeypatch, command):
    monkeypatch.chdir(store)
    monkeypatch.setattr("harsanyinet.batch.fit_files.read_table", None)
    monkeypatch.setattr("harsanyinet.loading.load", None)
    given = ["shop.csv", "--target", "bought"] if command == "fit" else ["bought.hnet", "shop.csv"]
    code, text, err = run(capsys, command, *given, "-o", "/proc/out.csv")  # not even root can
    assert (code, text) == (2, "")
    assert err.startswith("harsanyinet: cannot write /proc/out.csv: ")
    assert err.endswith("; give another path\n")


@pytest.mark.needs("pyarrow")
def test_identifiers_pass_through(tmp_path, capsys):
    frame = shop().assign(customer=[f"{i:05d}" for i in range(200)], note="NA")
    frame.drop(columns=["kind", "price"]).to_csv(tmp_path / "d.csv", index=False)
    frame.to_parquet(tmp_path / "d.parquet")
    ids = ("--id", "customer", "--id", "note")
    code, _, _ = run(capsys, "fit", tmp_path / "d.csv", "--target", "bought", *ids, "-o", tmp_path / "m.hnet", *SMALL)
    assert code == 0
    model = load(tmp_path / "m.hnet")
    assert [column.name for column in model.columns_] == FEATURES
    for command in ("predict", "explain"):
        plain = run(capsys, command, tmp_path / "m.hnet", tmp_path / "d.csv")[1].splitlines()
        for data, chunk in (("d.csv", 33), ("d.parquet", 33)):
            code, out, err = run(capsys, command, tmp_path / "m.hnet", tmp_path / data, *ids, "--chunk", chunk)
            assert (code, err) == (0, "")
            lines = out.splitlines()
            assert lines[0] == f"customer,note,{plain[0]}"
            assert lines[1:] == [f"{i:05d},NA,{line}" for i, line in enumerate(plain[1:])]  # as written, zeros and all
        code, _, err = run(capsys, command, tmp_path / "m.hnet", tmp_path / "d.csv", "--id", "size")
        assert (code, err) == (2, "harsanyinet: an identifier must be no column of the model, however: 'size' is one\n")
    frame.assign(prediction=1).to_csv(tmp_path / "e.csv", index=False)
    _, _, err = run(capsys, "predict", tmp_path / "m.hnet", tmp_path / "e.csv", "--id", "prediction")
    assert "must have a name that the result has not, however: 'prediction'; rename it" in err
    assert "'nobody' missing" in run(capsys, "predict", tmp_path / "m.hnet", tmp_path / "d.csv", "--id", "nobody")[2]


@pytest.mark.needs("pyarrow")
def test_standard_input_and_output(store, tmp_path, capsys, monkeypatch):
    def stdin(path):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))

    plain = run(capsys, "predict", store / "bought.hnet", store / "shop.csv")[1]
    (tmp_path / "shop.csv.gz").write_bytes(gzip.compress((store / "shop.csv").read_bytes()))
    for path in (store / "shop.csv", store / "shop.parquet", tmp_path / "shop.csv.gz"):
        stdin(path)
        assert run(capsys, "predict", store / "bought.hnet", "-", "-o", "-") == (0, plain, "")
    stdin(store / "shop.csv")
    code, out, _ = run(capsys, "fit", "-", "--target", "bought", "-o", tmp_path / "m.hnet", *SMALL)
    assert code == 0
    for command in (["explain"], ["verify"], ["score", "--target", "bought"]):
        stdin(store / "shop.csv")
        assert run(capsys, *command, store / "bought.hnet", "-")[0] == 0
    code, out, err = run(capsys, "fit", store / "shop.csv", "--target", "bought", "-o", "-")
    assert (code, out) == (2, "")
    assert "a model must go to a file, such as model.hnet, however: to standard output" in err
    stdin(tmp_path / "shop.csv.gz")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"size\n1\n")))
    code, _, err = run(capsys, "predict", store / "bought.hnet", "-")
    assert code == 2
    assert err.startswith("harsanyinet: standard input: the table must have the columns")
    assert not any(p.name == "-" for p in (*tmp_path.iterdir(), *store.iterdir()))


@pytest.mark.needs("pyarrow")
def test_score(store, tmp_path, capsys):
    from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score, root_mean_squared_error

    frame = shop()
    frame.loc[[3, 8], ["bought", "kind", "price"]] = None
    frame.to_csv(tmp_path / "d.csv", index=False)
    known = frame.drop([3, 8])

    def scores(target, data=tmp_path / "d.csv"):
        code, out, err = run(capsys, "score", store / f"{target}.hnet", data, "--target", target)
        assert (code, err) == (0, f"harsanyinet: 2 of 200 rows have no {target!r} and are left out\n")
        return {line[:20].strip(): float(line[20:]) for line in out.splitlines()}

    for target in ("bought", "kind"):
        model = load(store / f"{target}.hnet")
        shares = model.predict_proba(known[FEATURES])
        wanted = {
            "rows": 198, "log-loss": log_loss(known[target], shares),
            "accuracy": accuracy_score(known[target], model.predict(known[FEATURES])),
        }  # fmt: skip
        if target == "bought":
            wanted["AUC"] = roc_auc_score(known[target] == "yes", shares[:, 1])
        assert scores(target) == pytest.approx(wanted, rel=1e-5)
    guess = load(store / "price.hnet").predict(known[FEATURES])
    wanted = {
        "rows": 198, "RMSE": root_mean_squared_error(known["price"], guess), "R2": r2_score(known["price"], guess),
    }  # fmt: skip
    assert scores("price") == pytest.approx(wanted, rel=1e-5)
    frame.to_parquet(tmp_path / "d.parquet")
    assert scores("kind", tmp_path / "d.parquet") == scores("kind")

    frame.assign(bought="perhaps").to_csv(tmp_path / "e.csv", index=False)
    _, _, err = run(capsys, "score", store / "bought.hnet", tmp_path / "e.csv", "--target", "bought")
    assert "must hold classes of the model ('no', 'yes'), however: 'perhaps' in row 1" in err
    _, _, err = run(capsys, "score", store / "bought.hnet", tmp_path / "e.csv", "--target", "size")
    assert "the target must be no column of the model, however: 'size' is one" in err
    frame.assign(bought=None).to_csv(tmp_path / "e.csv", index=False)
    _, _, err = run(capsys, "score", store / "bought.hnet", tmp_path / "e.csv", "--target", "bought")
    assert "must hold something to compare with, however: it is empty" in err


def test_true_and_false_are_scored_however_they_are_written(tmp_path, capsys):
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60) > 20})
    frame.to_csv(tmp_path / "d.csv", index=False)
    assert run(capsys, "fit", tmp_path / "d.csv", "--target", "y", "-o", tmp_path / "m.hnet", *SMALL)[0] == 0
    for words in (("True", "False"), ("TRUE", "false"), (1, 0)):
        frame.assign(y=np.where(frame["y"], *words)).to_csv(tmp_path / "e.csv", index=False)
        code, out, _ = run(capsys, "score", tmp_path / "m.hnet", tmp_path / "e.csv", "--target", "y")
        assert code == 0
        assert "AUC                 1\n" in out


@pytest.mark.parametrize("command", ["fit", "predict", "explain", "verify"])
def test_tables_need_no_torch_and_few_rows_no_numba(store, tmp_path, command):
    arguments = {"fit": ["shop.csv", "--target", "price", "-o", str(tmp_path / "m.hnet"), "--max-iter", "3"]}
    arguments = [command, *arguments.get(command, ["bought.hnet", "shop.csv"])]
    code = (
        "import sys; from harsanyinet.cli import main; "
        f"code = main({arguments!r}); "
        "print(code, *(name for name in ('torch', 'numba', 'matplotlib') if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=store)
    assert done.stderr.splitlines()[-1] == ("0 numba" if command == "fit" else "0")


def test_two_threads_write_what_one_does(store, tmp_path, capsys):
    odd = shop().assign(colour=["mauve", *shop()["colour"][1:-1], "mauve"])
    odd.to_csv(tmp_path / "odd.csv", index=False)
    said = []
    for threads in (1, 2):
        out = tmp_path / f"{threads}.csv"
        options = ("-o", out, "--chunk", 7, "--threads", threads)
        said.append((*run(capsys, "explain", store / "price.hnet", tmp_path / "odd.csv", *options), out.read_text()))
    assert said[0] == said[1]
    assert "in 2 rows" in said[0][2]
    assert len(table(said[0][3])) == 200


def test_a_mistake_beside_the_reading_leaves_nothing(store, tmp_path, capsys, monkeypatch):
    real, calls = runs._explained, []

    def third(model, frame, game):
        calls.append(len(frame))
        if len(calls) == 3:
            raise ValueError("the third part is wrong")
        return real(model, frame, game)

    monkeypatch.setattr(runs, "_explained", third)
    options = ("-o", tmp_path / "out.csv", "--chunk", 20, "--threads", 2)
    code, out, err = run(capsys, "explain", store / "price.hnet", store / "shop.csv", *options)
    assert (code, out, err) == (2, "", "harsanyinet: the third part is wrong\n")
    assert len(calls) < 10
    assert list(tmp_path.iterdir()) == []
