"""Tables as text: delimiters, encodings, decimal marks, damaged files."""

from __future__ import annotations

import pandas as pd
import pytest
from read_back import read

from harsanyinet.batch.tablefiles import read_table

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
    if rows == 1 and content == "n,c,t\n1,1,1\n1,1,1,1\n" and int(pd.__version__.split(".")[0]) < 3:
        pytest.skip("pandas before 3 cuts a long row off where a part of the file begins with it")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    rows = max(rows, len(content) // 1000)  # a long file in parts, and not row by row
    with pytest.raises(ValueError, match=message) as caught:
        read(path, rows)
    assert "\n" not in str(caught.value)
    assert "data.csv" in str(caught.value)
