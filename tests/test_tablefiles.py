from __future__ import annotations

import gzip
import sys

import numpy as np
import pandas as pd
import pytest

from harsanyinet.tablefiles import count_rows, odd_values, read_rows_for, read_table, writing_table
from harsanyinet.tables.bins import Binning, Column, code_frame, fit_columns

COLUMNS = [
    Column("n", "number"),
    Column("c", "category", levels=("1", "01", "2", "x", "007"), level_bins=np.ones((5, 1), dtype=np.uint8)),
    Column("t", "number", boolean=True),
]


def read(path, rows=2, columns=COLUMNS, **options):
    return pd.concat(read_rows_for(columns, path, rows=rows, **options))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.csv"


@pytest.fixture
def mixed():
    return pd.DataFrame({
        "number": [0.1, 1 / 3, np.nan, 1e-300],
        "whole": [1, 2, 3, 4],
        "text": ["a", None, "b, c", 'say "d"'],
        "truth": [True, False, True, True],
    })  # fmt: skip


@pytest.mark.parametrize("name", ["d.csv", "d.CSV", "d.csv.gz", "d.tsv", "d.tab", "d.tsv.gz", "d.parquet", "d.pq"])
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
@pytest.mark.parametrize("name", ["d.csv", "d.tsv.gz", "d.parquet"])
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


PLAIN = pd.DataFrame({"n": [1.5, 2.25, -3.5], "c": ["x", "é, ü", "2"], "t": [True, False, True]})


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.tsv"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_delimiters_and_marks_are_recognised(tmp_path, delimiter, name, encoding):
    path = tmp_path / name
    PLAIN.to_csv(path, sep=delimiter, encoding=encoding, index=False)
    pd.testing.assert_frame_equal(read_table(path), PLAIN)
    assert read(path)["n"].tolist() == [1.5, 2.25, -3.5]
    PLAIN.rename(columns={"n": "n;a", "c": "c;b"}).to_csv(path, sep=delimiter, encoding=encoding, index=False)
    assert list(read_table(path, delimiter=delimiter).columns) == ["n;a", "c;b", "t"]


def test_latin_1_is_named(path):
    PLAIN.to_csv(path, encoding="latin-1", index=False)
    pd.testing.assert_frame_equal(read_table(path, encoding="latin-1"), PLAIN)
    assert read(path, encoding="latin-1")["c"].tolist() == PLAIN["c"].tolist()
    for options in ({}, {"encoding": "utf-8"}):
        with pytest.raises(ValueError, match="must be text in UTF-8, however: it is not; name its encoding"):
            read_table(path, **options)
    with pytest.raises(ValueError, match="an encoding must be known, such as utf-8 or latin-1, however: 'latin-99'"):
        read_table(path, encoding="latin-99")
    with pytest.raises(ValueError, match="a delimiter must be one character, however: ';;'"):
        read_table(path, delimiter=";;")


def test_decimal_commas(path):
    path.write_text("n;c;t\n1,5;x;1\n-2,25;y;0\n")
    assert read_table(path)["n"].tolist() == [1.5, -2.25]
    assert read(path)["n"].tolist() == [1.5, -2.25]
    path.write_text("n;c;t\n1,234;x;1\n2,345;y;0\n")  # thousands, perhaps: not for us to say
    assert read_table(path)["n"].tolist() == ["1,234", "2,345"]
    path.write_text("n;c;t\n1.5;1,5;1\n2.5;2,5;0\n")  # numbers have points
    assert read_table(path)["c"].tolist() == ["1,5", "2,5"]


def test_spaces_after_a_comma_are_those_of_pandas(path):
    path.write_text("n, c,t\n1, x, 1\n2, ?,0\n")
    pd.testing.assert_frame_equal(read_table(path), pd.read_csv(path))
    assert read_table(path, missing=["?"])[" c"].isna().tolist() == [False, True]


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must start with a line of column names, however: it is empty"),
        ("n,c,t\n", "must have at least one row below its column names"),
        ("n,c\n1,1\n", "data.csv: the table must have the columns .*'t' missing; it has 'n', 'c'"),
        ("n,c,t\n1,1,1\n2,1,1\n?,1,1\n", "data.csv: column 'n' must hold finite numbers, .*: '\\?' in row 3; name it"),
        ("n,c,t\n1,1,1\ninf,1,1\n", "column 'n' must hold finite numbers, .*: 'inf' in row 2"),
        ("n,c,t\n1,1,maybe\n", "column 't' must hold finite numbers, .*: 'maybe' in row 1"),
        ("n,c,t\nTrue,1,1\n", "column 'n' must hold finite numbers, .*: 'True' in row 1"),
        ("n,c,t\n1,1,1,1\n", "must have one name for each column"),
        ("n,c,t\n1,1,1\n1,1,1,1\n", "damaged or not a table .Expected 3 fields in line 3, saw 4"),
        (
            b"n,c,t\n1,\xff,1\n",
            "must be text in UTF-8, however: it is not; name its encoding .such as --encoding latin-1",
        ),
        ("n,c,t,n\n1,1,1,1\n", "must have different column names, however: 'n' stands there 2 times; rename or delete"),
        (b"n,c,t\n1,1\0,1\n", "must be text, however: it contains NUL bytes"),
        (b"n,c,t\n" + b"1,1,1\n" * 50_000 + b"1,1\0,1\n", "must be text, however: it contains NUL bytes"),
        ("n,c,t\n1,1,1\n1,1,1,1\n", "if its delimiter was mistaken, name it .--delimiter"),
    ],
)
@pytest.mark.parametrize("rows", [1, 100])
def test_wrong_content_gets_one_sentence(path, content, message, rows):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message) as caught:
        read(path, rows)
    assert "\n" not in str(caught.value)
    assert "data.csv" in str(caught.value)


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
