"""Tables to try things on: their rows, columns, types and labels."""

from __future__ import annotations

import gzip
import hashlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stored_sets import (
    COLUMNS,
    NUMERIC,
    SHARED,
    TV_NEWS,
    YEAST,
    archive,
    assert_same,
    put,
    real_files,
    real_tv_news,
    real_yeast,
    run_alone,
    serve,
)

from harsanyinet.datasets import (
    DatasetDamagedError,
    DatasetNotFoundError,
    load_bike,
    load_breast_cancer_table,
    load_california,
    load_census,
    load_digits_table,
    load_tv_news,
    load_yeast,
)
from harsanyinet.datasets import table_sets as datasets


class TestCensus:
    """On the real rows, which come with shapiq."""

    @pytest.mark.parametrize(
        ("rows", "sizes", "above"),
        [("all", (32_561, 16_281), (7_841, 3_846)), ("complete", (30_162, 15_060), (7_508, 3_700))],
    )
    @pytest.mark.needs("shapiq")
    def test_rows_columns_and_types(self, rows, sizes, above):
        split = load_census(rows)
        assert split.source == "shapiq"
        assert split.name == "census"
        for table, y, size, count in zip(
            (split.train, split.test), (split.y_train, split.y_test), sizes, above, strict=True
        ):
            assert list(table.columns) == COLUMNS
            assert table.shape == (size, 12)
            assert table.index.equals(pd.RangeIndex(size))
            assert y.index.equals(table.index)
            assert set(y) == {"<=50K", ">50K"}
            assert (y == ">50K").sum() == count
            assert (table[NUMERIC].dtypes == np.int64).all()
            for column in set(COLUMNS) - set(NUMERIC):
                values = table[column].dropna()
                assert values.map(type).eq(str).all()
                assert values.eq(values.str.strip()).all()
                assert not values.isin(["?", ""]).any()
        assert f"{sizes[0]:,} to train and {sizes[1]:,} to test" in split.description

    @pytest.mark.needs("shapiq")
    def test_missing_values(self):
        split = load_census()
        both = pd.concat([split.train, split.test]).isna().sum()
        assert both[both > 0].to_dict() == {"workclass": 2799, "occupation": 2809, "native-country": 857}
        split = load_census("complete")
        assert not split.train.isna().any(axis=None)
        assert not split.test.isna().any(axis=None)

    @pytest.mark.needs("shapiq")
    def test_the_first_row_of_each_part(self):
        split = load_census()
        first = "39 State-gov 13 Never-married Adm-clerical Not-in-family White Male 2174 0 40 United-States"
        assert " ".join(map(str, split.train.iloc[0])) == first
        first = "25 Private 7 Never-married Machine-op-inspct Own-child Black Male 0 0 40 United-States"
        assert " ".join(map(str, split.test.iloc[0])) == first

    @pytest.mark.needs("shapiq")
    def test_the_same_from_every_source(self, cache, tmp_path, monkeypatch, uci):
        splits = [load_census()]  # shapiq

        serve(monkeypatch, archive(uci))
        with monkeypatch.context() as context:
            context.setitem(sys.modules, "shapiq", None)
            splits.append(load_census())
        splits.append(load_census())  # what the download left
        put(tmp_path / "data" / "adult", uci)
        monkeypatch.setenv("HARSANYINET_DATA", str(tmp_path / "data"))
        splits.append(load_census())

        assert [split.source for split in splits] == ["shapiq", "download", "cache", "HARSANYINET_DATA"]
        for other in splits[1:]:
            assert_same(splits[0], other)

    @real_files
    @pytest.mark.parametrize("rows", ["all", "complete"])
    @pytest.mark.needs("shapiq")
    def test_the_real_files_equal_those_of_shapiq(self, monkeypatch, rows):
        shapiq = load_census(rows)
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        real = load_census(rows)
        assert (shapiq.source, real.source) == ("shapiq", "HARSANYINET_DATA")
        assert_same(shapiq, real)

    @real_files
    def test_the_real_files_read_another_way(self, monkeypatch):
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        split = load_census()
        for name, table, y in (("data", split.train, split.y_train), ("test", split.test, split.y_test)):
            text = gzip.decompress(Path(SHARED, "adult", f"adult.{name}.gz").read_bytes()).decode()
            lines = [line.split(", ") for line in text.splitlines() if line and line[0] != "|"]
            rows = [line[:2] + line[4:14] for line in lines]
            assert table.astype(object).where(table.notna(), "?").astype(str).to_numpy().tolist() == rows
            assert y.tolist() == [line[14].rstrip(".") for line in lines]

    @pytest.mark.needs("shapiq")
    def test_shapiq_is_not_imported(self):
        printed = run_alone("print(harsanyinet.datasets.table_sets.load_census().source)")
        assert printed[0] == "shapiq"
        assert "shapiq" not in printed[1:]


class TestBreastCancer:
    def test_rows_columns_and_labels(self):
        split = load_breast_cancer_table()
        assert (split.train.shape, split.test.shape) == ((455, 30), (114, 30))
        assert (split.name, split.source) == ("breast_cancer", "scikit-learn")
        assert (split.train.dtypes == np.float64).all()
        for table, y in ((split.train, split.y_train), (split.test, split.y_test)):
            assert table.index.equals(pd.RangeIndex(len(table)))
            assert y.index.equals(table.index)
            assert set(y) == {"malignant", "benign"}
            assert (y == "malignant").mean() == pytest.approx(212 / 569, abs=0.005)  # one row of 114 is 0.009

    def test_labels_belong_to_their_rows(self):
        from sklearn.datasets import load_breast_cancer

        X, y = load_breast_cancer(return_X_y=True)
        label = {row.tobytes(): ("malignant", "benign")[k] for row, k in zip(X, y, strict=True)}
        split = load_breast_cancer_table(seed=3)
        rows = np.ascontiguousarray(pd.concat([split.train, split.test]).to_numpy())
        assert [label[row.tobytes()] for row in rows] == [*split.y_train, *split.y_test]
        assert len({row.tobytes() for row in rows}) == len(label)

    def test_the_seed_decides(self):
        assert_same(load_breast_cancer_table(1), load_breast_cancer_table(1))
        assert not load_breast_cancer_table(1).train.equals(load_breast_cancer_table(2).train)

    def test_the_whole_has_the_rows_to_train_first(self):
        split = load_breast_cancer_table()
        whole = split.whole()
        assert (whole.name, whole.task, whole.source) == ("breast_cancer", "classification", "scikit-learn")
        assert whole.x.index.equals(pd.RangeIndex(569))
        assert whole.y.index.equals(whole.x.index)
        np.testing.assert_array_equal(whole.x, np.vstack([split.train, split.test]))
        assert whole.y.tolist() == [*split.y_train, *split.y_test]


class TestTables:
    """Tables in one part."""

    def test_digits(self):
        table = load_digits_table()
        assert (table.name, table.task, table.source) == ("digits", "classification", "scikit-learn")
        assert table.x.shape == (1797, 64)
        assert set(table.y) == set("0123456789")
        from sklearn.datasets import load_digits

        np.testing.assert_array_equal(table.y.astype(int), load_digits().target)

    @pytest.mark.needs("shapiq")
    def test_california(self):
        table = load_california()
        assert (table.name, table.task, table.source) == ("california", "regression", "shapiq")
        assert " ".join(table.x) == "MedInc HouseAge AveRooms AveBedrms Population AveOccup Latitude Longitude"
        assert len(table.x) == len(table.y) == 20_640
        assert table.x.iloc[0].tolist()[:2] == [8.3252, 41.0]
        assert (table.y.name, table.y[0], table.y.max()) == ("MedHouseVal", 4.526, 5.00001)

    @pytest.mark.needs("shapiq")
    def test_bike(self):
        table = load_bike()
        assert (table.name, table.task, table.source) == ("bike", "regression", "shapiq")
        names = "season year month hour holiday weekday workingday weather temp feel_temp humidity windspeed"
        assert " ".join(table.x) == names
        assert len(table.x) == len(table.y) == 17_379
        assert (table.y.name, table.y[0], table.y.sum()) == ("count", 16, 3_292_679)  # the sum that UCI's file has
        assert not pd.api.types.is_numeric_dtype(table.x["season"])
        assert "casual and registered" in table.description

    @pytest.mark.parametrize(("load", "file"), [(load_california, "california_housing.csv"), (load_bike, "bike.csv")])
    @pytest.mark.needs("shapiq")
    def test_a_folder_goes_before_shapiq_and_is_checked(self, cache, load, file):
        folder = cache.parent / file.partition("_")[0].removesuffix(".csv")
        content = datasets.packaged_file("shapiq", f"datasets/data/{file}").read_bytes()
        shapiq = load()
        put(folder, {file: content})
        assert load().source == "cache"
        pd.testing.assert_frame_equal(load().x, shapiq.x)
        put(folder, {file: content + b"\n"})
        with pytest.raises(DatasetDamagedError, match=f"{file}.gz is damaged"):
            load()

    @pytest.mark.parametrize(("load", "file"), [(load_california, "california_housing.csv"), (load_bike, "bike.csv")])
    def test_no_shapiq_or_another_table_in_it(self, monkeypatch, tmp_path, load, file):
        (tmp_path / file).write_text("another,table\n")
        for path in (None, tmp_path / file):
            monkeypatch.setattr(datasets, "packaged_file", lambda package, file, path=path: path)
            with pytest.raises(DatasetNotFoundError, match=rf"^cannot find {file} .* HARSANYINET_DATA .*\[shapiq\]"):
                load()

    def test_yeast_of_two_rows(self, cache, monkeypatch):
        monkeypatch.setattr(datasets, "YEAST_MD5", {"yeast.data": hashlib.md5(YEAST).hexdigest()})
        asked = serve(monkeypatch, archive({"yeast.data": YEAST}))
        tables = [load_yeast(), load_yeast()]
        assert [table.source for table in tables] == ["download", "cache"]
        assert [url for url, _ in asked] == ["https://archive.ics.uci.edu/static/public/110/yeast.zip"]
        for table in tables:
            assert (table.name, table.task) == ("yeast", "classification")
            assert table.x.to_dict("list") == {
                "mcg": [0.58, 0.43], "gvh": [0.61, 0.67], "alm": [0.47, 0.48], "mit": [0.13, 0.27],
                "erl": [0.5, 0.5], "pox": [0.0, 0.0], "vac": [0.48, 0.53], "nuc": [0.22, 0.22],
            }  # fmt: skip
            assert table.y.tolist() == ["MIT", "CYT"]

    def test_yeast_offline(self):
        with pytest.raises(DatasetNotFoundError, match=r"cannot find yeast.data .*, nor fetch .*; put it, plain or as"):
            load_yeast()

    @real_yeast
    def test_yeast(self, monkeypatch):
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        table = load_yeast()
        assert table.source == "HARSANYINET_DATA"
        lines = [line.split() for line in Path(SHARED, "yeast", "yeast.data").read_text().splitlines()]
        assert table.x.to_numpy().tolist() == [[float(value) for value in line[1:9]] for line in lines]
        assert table.y.tolist() == [line[9] for line in lines]
        assert table.y.value_counts().to_dict() == {
            "CYT": 463, "NUC": 429, "MIT": 244, "ME3": 163, "ME2": 51, "ME1": 44, "EXC": 35, "VAC": 30,
            "POX": 20, "ERL": 5,
        }  # fmt: skip

    def test_tv_news_of_two_rows(self, cache, monkeypatch):
        md5 = {"tv_commercial_bbc_ndtv.csv": hashlib.md5(TV_NEWS).hexdigest()}
        monkeypatch.setattr(datasets, "TV_NEWS_MD5", md5)
        put(cache.parent / "tv_commercial", {"tv_commercial_bbc_ndtv.csv": TV_NEWS})
        table = load_tv_news()
        assert (table.name, table.task, table.source) == ("tv_news", "classification", "cache")
        assert list(table.x) == ["Shot_Length", "ZCR_Mean", "ZCR_Variance"]
        assert table.y.tolist() == ["commercial", "other"]
        assert "BBC and NDTV only, 2 of the 5 channels" in table.description
        assert load_tv_news("paper").x.to_dict("list") == {"Shot_Length": [123, 29], "ZCR_Mean": [0.091743, 0.5]}

    def test_tv_news_is_never_fetched(self, cache, monkeypatch):
        asked = serve(monkeypatch, b"")
        with pytest.raises(DatasetNotFoundError) as caught:
            load_tv_news()
        assert asked == []
        message = str(caught.value)
        assert message.startswith(
            "cannot find tv_commercial_bbc_ndtv.csv on this machine; put it, plain or as .gz, into"
        )
        assert f"into {cache.parent / 'tv_commercial'}, or into tv_commercial inside the folder" in message
        assert "HARSANYINET_DATA" in message

    def test_tv_news_refuses_columns(self):
        with pytest.raises(ValueError, match='columns must be "all" or "paper", however: columns=\'some\''):
            load_tv_news("some")

    @real_tv_news
    def test_tv_news(self, monkeypatch):
        monkeypatch.setenv("HARSANYINET_DATA", SHARED)
        every, paper = load_tv_news(), load_tv_news("paper")
        assert (every.x.shape, paper.x.shape) == ((34_771, 19), (34_771, 10))
        assert every.y.value_counts().to_dict() == {"commercial": 20_980, "other": 13_791}
        pd.testing.assert_frame_equal(every.x[list(paper.x)], paper.x)
        assert " ".join(paper.x) == (
            "Shot_Length Motion_Distribution_Mean Frame_Diff_Distribution_Mean Short_Time_Energy_Mean ZCR_Mean "
            "Spectral_Centroid_Mean Spectral_Roll_Off_Mean Spectral_Flux_Mean Fundamental_Frequency_Mean "
            "Edge_Change_Ratio_Mean"
        )


def test_importing_is_cheap():
    assert not {"pandas", "sklearn", "scipy", "torch", "tqdm", "shapiq"} & set(run_alone("pass"))
