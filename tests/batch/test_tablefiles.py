"""Tables on disk, whole and in parts: formats, types, missing values, errors."""

from __future__ import annotations

import gzip
import sys

import numpy as np
import pandas as pd
import pytest
from read_back import COLUMNS, read

from harsanyinet.batch.tablefiles import count_rows, odd_values, read_rows_for, read_table, writing_table
from harsanyinet.tables.bins import Binning, fit_columns
from harsanyinet.tables.columns import code_frame

PARQUET = [pytest.param(name, marks=pytest.mark.needs("pyarrow")) for name in ("d.parquet", "d.pq")]


@pytest.fixture
def mixed():
    return pd.DataFrame({
        "number": [0.1, 1 / 3, np.nan, 1e-300],
        "whole": [1, 2, 3, 4],
        "text": ["a", np.nan, "b, c", 'say "d"'],
        "truth": [True, False, True, True],
    })  # fmt: skip


@pytest.mark.parametrize("name", ["d.csv", "d.CSV", "d.csv.gz", "d.tsv", "d.tab", "d.tsv.gz", *PARQUET])
def test_tables_come_back_from_every_format(tmp_path, mixed, name):
    with writing_table(tmp_path / name) as write:
        write(mixed[:3])
        write(mixed[3:])
    assert [p.name for p in tmp_path.iterdir()] == [name]
    pd.testing.assert_frame_equal(read_table(tmp_path / name), mixed)  # exact: numbers to the last bit
    assert count_rows(tmp_path / name) == (4 if name.endswith(("parquet", "pq")) else None)
    start = (tmp_path / name).read_bytes()[:2]
    assert (start == b"\x1f\x8b") == name.endswith(".gz")


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ["d.csv", "d.tsv.gz", PARQUET[0]])
@pytest.mark.parametrize("old", [b"old", None])
def test_half_a_file_never_stays(tmp_path, mixed, name, error, old):
    if old is not None:
        (tmp_path / name).write_bytes(old)
    with pytest.raises(type(error)), writing_table(tmp_path / name) as write:  # noqa: PT012
        write(mixed)
        assert not (tmp_path / name).exists() or (tmp_path / name).read_bytes() == old
        raise error
    assert [p.name for p in tmp_path.iterdir()] == ([] if old is None else [name])
    assert old is None or (tmp_path / name).read_bytes() == old


def test_output_goes_to_stdout_without_a_path(capsys):
    with writing_table(None) as write:
        write(pd.DataFrame({"a": [0.5], "b": ["x"]}))
        write(pd.DataFrame({"a": [0.25], "b": [None]}))
    assert capsys.readouterr().out == "a,b\n0.5,x\n0.25,\n"


@pytest.mark.needs("pyarrow")
def test_missing_values(path, tmp_path):
    path.write_text("a,b,c\n1, ?,x\n-999,2,\nNA,3,?\n")
    frame = read_table(path, missing=["?", "-999"])
    assert frame["a"].isna().tolist() == [False, True, True]
    assert frame["b"].tolist()[1:] == [2, 3]
    assert frame["c"].isna().tolist() == [False, True, True]
    pd.DataFrame({"a": [1, -999, 5], "b": ["?", "2", "3"], "c": ["x", "y", "?"]}).to_parquet(tmp_path / "d.parquet")
    frame = read_table(tmp_path / "d.parquet", missing=["?", "-999"])
    assert frame["a"].isna().tolist() == [False, True, False]
    assert frame["b"].tolist()[1:] == [2, 3]  # numbers, once the marker is gone
    assert frame["c"].tolist()[:2] == ["x", "y"]
    assert frame["c"].isna().tolist() == [False, False, True]


def test_columns_to_keep(path):
    path.write_text("id,n,c,t\n007,1,1,1\nNA,2,2,0\n1e5,3,x,1\n")
    found = read(path, 2, keep=["id"])
    assert list(found.columns) == ["n", "c", "t", "id"]
    assert found["id"].tolist() == ["007", "NA", "1e5"]


def test_text_keeps_its_zeros(path):
    path.write_text("a,zip\n1,007\n2,\n")
    frame = read_table(path, text=["zip"])
    assert frame["zip"][0] == "007"
    assert pd.isna(frame["zip"][1])


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_every_chunk_has_the_types_of_the_model(path, rows):
    """Alone, chunks of this file would be read as other types: c as numbers, t as text, n as booleans."""
    path.write_text("other,c,t,n\n0,1,True,5\n0,1.0,,\n0,02,false,7.5\n0,x,TRUE,1e3\n0,q,1,9\n0,7,0,\n0,01,,\n")
    frame = read(path, rows)
    assert list(frame.columns) == ["n", "c", "t"]  # the model's order
    assert frame.index.tolist() == list(range(7))
    np.testing.assert_array_equal(frame["n"], [5, np.nan, 7.5, 1000, 9, np.nan, np.nan])
    assert frame["c"].tolist() == ["1", "1", "2", "x", "q", "007", "01"]  # what writes a number that it knows is known
    np.testing.assert_array_equal(frame["t"], [1, np.nan, 0, 1, 1, 0, np.nan])
    assert frame["n"].dtype == frame["t"].dtype == np.float64


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.needs("pyarrow")
def test_chunks_of_parquet(tmp_path, rows):
    frame = pd.DataFrame({
        "c": pd.Categorical(["x", None, "1"]), "more": [1, 2, 3], "n": ["1", "2.5", None], "t": [True, None, False],
    })  # fmt: skip
    frame.to_parquet(tmp_path / "d.parquet")
    found = read(tmp_path / "d.parquet", rows)
    assert found["c"].tolist() == ["x", None, "1"]
    np.testing.assert_array_equal(found["n"], [1, 2.5, np.nan])
    np.testing.assert_array_equal(found["t"], [1, np.nan, 0])
    assert found.index.tolist() == [0, 1, 2]


@pytest.mark.needs("pyarrow")
def test_categories_of_numbers(tmp_path, path):
    """A model that learned categories from integers meets them as text, as integers and as floats."""
    frame = pd.DataFrame({"c": [1, 2, 3] * 9, "n": 0.0})
    columns, own = fit_columns(frame, frame[["c"]].to_numpy(float), np.ones(27), Binning(plain_rows=0), ["c"], None, 0)
    path.write_text("n,c\n0,1\n0,2\n0,\n")
    bins = code_frame(columns, read(path, 1, columns))
    np.testing.assert_array_equal(bins[:, :2], own[:, :2])
    assert bins[0].tolist() == [1, 2, 0]
    for values in ([1, 2, None], [1.0, 2.0, np.nan], ["1", "02", None]):
        pd.DataFrame({"c": values, "n": 0.0}).to_parquet(tmp_path / "d.parquet")
        np.testing.assert_array_equal(code_frame(columns, read(tmp_path / "d.parquet", 2, columns)), bins)


def test_an_empty_line_is_a_missing_value_only_where_it_can_be(path):
    path.write_text("n\n1\n\n2\n")
    np.testing.assert_array_equal(read(path, 2, COLUMNS[:1])["n"], [1, np.nan, 2])
    path.write_text("n,c,t\n1,1,1\n\n2,2,0\n")
    assert read(path)["n"].tolist() == [1, 2]


@pytest.mark.needs("pyarrow")
def test_wrong_files_get_one_sentence(tmp_path):
    whole = gzip.compress(b"n,c,t\n" + b"".join(b"%d,1,1\n" % (i * i) for i in range(5000)))
    contents = {
        "plain.csv.gz": b"n,c,t\n", "cut.csv.gz": whole[: len(whole) // 2], "no.parquet": b"PAR1", "table.xlsx": b"",
        "table": b"", "table.gz": b"",
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        for action in (read_table, lambda path: list(read_rows_for(COLUMNS, path, rows=10))):
            with pytest.raises(ValueError, match=name) as caught:
                action(tmp_path / name)
            assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match="there is no such file; check the path"):
        read_table(tmp_path / "nowhere.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        read_table(tmp_path / "folder.csv")
    with (
        pytest.raises(ValueError, match=r"must have a name that ends in .*however: out\.xlsx"),
        writing_table("out.xlsx"),
    ):
        pass
    with pytest.raises(ValueError, match="must be positive, however: 0"):
        read(tmp_path / "folder.csv", rows=0)


def test_parquet_needs_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "d.parquet").write_bytes(b"")
    with pytest.raises(ImportError, match=r"pip install harsanyinet\[parquet\]"):
        read_table(tmp_path / "d.parquet")
    with pytest.raises(ImportError, match=r"pip install harsanyinet\[parquet\]"), writing_table(tmp_path / "e.parquet"):
        pass


def test_odd_values():
    assert odd_values(pd.Series(["1", "2", "?", "?", "3"])) == ["?"]
    assert odd_values(pd.Series(["1", "a", "b"])) == []
    assert odd_values(pd.Series(["1", "2", "3", "4", "5", *"abcd"])) == []
    assert odd_values(pd.Series([1.0, 2.0])) == []
    assert odd_values(pd.Series(["1", None, "2"])) == []
    assert odd_values(pd.Series([None, None], dtype=object)) == []
