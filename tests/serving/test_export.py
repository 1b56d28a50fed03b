"""`harsanyinet export`: what it writes and prints, and one sentence for what cannot be."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx_feeds import answers, feed, session_of
from sklearn.exceptions import NotFittedError

from harsanyinet import HarsanyiClassifier, HarsanyiRegressor, to_onnx, verify
from harsanyinet.cli import main

QUICK = {"max_iter": 20, "learning_rate": 0.1, "random_state": 0, "n_jobs": 1, "progress": False}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"size": rng.normal(size=80), "colour": rng.choice(["red", "blue"], 80), "b": rng.normal(size=80)}
    )


@pytest.fixture
def files(table, tmp_path):
    model = HarsanyiRegressor(**QUICK).fit(table, table["size"] + (table["colour"] == "red") * table["b"])
    model.save(tmp_path / "model.hnet")
    table.to_csv(tmp_path / "rows.csv", index=False)
    return model, tmp_path


def about(path):
    return {p.key: p.value for p in onnx.load(path).metadata_props}


def test_the_command_writes_the_file_and_says_its_size(files, table, capsys):
    model, folder = files
    out = folder / "model.onnx"
    assert main(["export", str(folder / "model.hnet"), str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: {out.stat().st_size / 1e6:.1f} MB\n"
    assert np.abs(answers(session_of(out), feed(model, table))["shapley"] - model.explain(table).values).max() < 1e-12
    rows = str(folder / "rows.csv")
    assert main(["export", str(folder / "model.hnet"), str(out), "--verify", rows, "--interactions"]) == 0
    said = about(out)
    assert json.loads(said["certificate"])["n_rows"] == 10
    assert json.loads(said["pairs"])
    assert main(["export", str(folder / "model.hnet"), str(out), "--game", "baseline", "--baseline", rows]) == 0
    values = model.explain(table, game="baseline", baseline=table[:1]).values
    assert np.abs(answers(session_of(out), feed(model, table))["shapley"] - values).max() < 1e-12
    assert about(out)["game"] == "baseline"


def test_sentences_of_the_command(files, capsys):
    _, folder = files
    model, out = str(folder / "model.hnet"), str(folder / "model.onnx")
    before = (folder / "model.hnet").read_bytes()
    (folder / "link.onnx").symlink_to(folder / "model.hnet")
    for arguments, sentence in (
        ([model, model], "must be another file than the input"),
        ([model, str(folder / "link.onnx")], "must be another file than the input"),
        (
            [model, str(folder / "rows.csv"), "--verify", str(folder / "rows.csv")],
            "must be another file than the input",
        ),
        ([model, str(folder / "nowhere" / "model.onnx")], "there is no folder"),
        ([str(folder / "no.hnet"), out], "there is no such file"),
        ([str(folder / "rows.csv"), out], "is not a safetensors file"),
        ([model, out, "--game", "baseline"], "the baseline game, and no other, needs baseline="),
    ):
        assert main(["export", *arguments]) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["link.onnx", "model.hnet", "rows.csv"]
    assert (folder / "model.hnet").read_bytes() == before


def test_without_onnx_one_sentence(files, monkeypatch, capsys):
    _, folder = files
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    assert main(["export", str(folder / "model.hnet"), str(folder / "model.onnx")]) == 2
    assert "pip install 'harsanyinet[onnx]'" in capsys.readouterr().err
    assert not (folder / "model.onnx").exists()


def test_a_file_that_fails_its_check_leaves_the_old_one(files, monkeypatch):
    model, folder = files
    (folder / "model.onnx").write_bytes(b"old")

    def refuse(*_, **__):
        raise ValueError("no")

    monkeypatch.setattr(onnx.checker, "check_model", refuse)
    with pytest.raises(ValueError, match="no"):
        model.to_onnx(folder / "model.onnx")
    assert (folder / "model.onnx").read_bytes() == b"old"


def test_sentences(files, table, tmp_path):
    model, _ = files
    path = tmp_path / "other.onnx"
    with pytest.raises(TypeError, match=r"model must be one of HarsanyiClassifier, .* however: str"):
        to_onnx("model", path)
    with pytest.raises(NotFittedError):
        HarsanyiClassifier().to_onnx(path)
    with pytest.raises(ValueError, match="baseline must be one row, however: 2 rows"):
        model.to_onnx(path, game="baseline", baseline=table[:2])
    with pytest.raises(ValueError, match="game must be one of"):
        model.to_onnx(path, game="other")
    failed = replace(verify(model, table[:1], progress=False), passed=False)
    with pytest.raises(ValueError, match="carries a certificate that was passed, however: FAILED"):
        model.to_onnx(path, certificate=failed)
    assert not path.exists()
