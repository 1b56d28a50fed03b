"""What others receive: shap, shapiq, frames, web pages, files."""

from __future__ import annotations

import re
import sys
import warnings
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from sparse_games import Game, close, mask_of, same

from harsanyinet import Explanation
from harsanyinet.explanations.indices import INDICES


class TestShap:
    @pytest.mark.parametrize("k", [1, 3])
    def test_shapes_sums_and_names(self, k):
        pytest.importorskip("shap")
        data = np.arange(8.0).reshape(2, 4)
        ex = Game(1, k=k).explain(feature_names=list("abcd"), output_names=list("rgb")[:k], data=data)
        found = ex.to_shap()
        dropped = (k,) if k > 1 else ()
        assert found.values.shape == (2, 4, *dropped)
        assert found.base_values.shape == (2, *dropped)
        assert found.feature_names == list("abcd")
        assert np.array_equal(found.data, data)
        assert np.array_equal(found.values, ex.values)
        close(found.base_values + found.values.sum(axis=1), ex.outputs)
        if k > 1:
            assert list(found.output_names) == list("rgb")
            assert found[:, :, "g"].values.tolist() == ex.values[..., 1].tolist()
        assert found[1].values.shape == (4, *dropped)
        assert found[1, "c"].data == 6.0

    def test_without_data(self):
        pytest.importorskip("shap")
        found = Game(1).explain().to_shap()
        assert found.data is None
        assert found[0].values.shape == (4,)

    def test_of_a_restriction(self):
        pytest.importorskip("shap")
        part = Game(1, rows=3).explain().restrict([1, 2])
        found = part.to_shap()
        assert np.array_equal(found.base_values, part.base_values)
        close(found.base_values + found.values.sum(axis=1), part.outputs)

    def test_is_a_copy(self):
        pytest.importorskip("shap")
        ex = Game(1).explain(data=np.ones((2, 4)))
        found = ex.to_shap()
        found.values[:], found.base_values[:], found.data[:] = 0, 0, 0
        found.feature_names[0] = "changed"
        same(ex, Game(1).explain())
        assert ex.data.all()

    @pytest.mark.parametrize("name", ["bar", "beeswarm", "waterfall"])
    def test_its_plots_work(self, name):
        shap = pytest.importorskip("shap")
        pyplot = pytest.importorskip("matplotlib.pyplot")
        found = Game(1, rows=5).explain(data=np.random.default_rng(0).normal(size=(5, 4))).to_shap()
        with np.errstate(all="ignore"):
            getattr(shap.plots, name)(found[0] if name == "waterfall" else found, show=False)
        assert pyplot.get_fignums()
        pyplot.close("all")

    def test_without_shap_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "shap", None)
        with pytest.raises(ImportError, match=re.escape("this needs shap: pip install 'harsanyinet[shap]'")):
            Game(1).explain().to_shap()

    @pytest.mark.parametrize(
        ("cell", "kind"), [(1, "f"), (2.5, "f"), (True, "f"), (None, "f"), (pd.NA, "f"), ("a", "O"), ("1", "O")]
    )
    @pytest.mark.needs("shap")
    def test_numbers_are_floats(self, cell, kind):
        cells = np.array([[1, 2.5, True, cell]] * 3, dtype=object)
        found = Game(1, rows=3).explain(data=cells).to_shap().data
        assert found.dtype.kind == kind
        if kind == "f":
            np.testing.assert_array_equal(found[0], [1, 2.5, 1, np.nan if pd.isna(cell) else float(cell)])

    def test_a_violin_can_be_drawn(self):
        shap, plt = pytest.importorskip("shap"), pytest.importorskip("matplotlib.pyplot")
        frame = np.random.default_rng(0).normal(size=(40, 4)).astype(object)
        ex = Game(2, rows=40, k=2).explain(data=frame, output_names=["no", "yes"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shap.plots.violin(ex.output("yes").to_shap(), show=False)
        plt.close("all")


class TestShapiq:
    @pytest.mark.parametrize(
        ("name", "order"),
        [("SV", 1), ("BV", 1), *product(("SII", "BII", "STII", "k-SII", "FSII", "Moebius"), (1, 2, 4))],
    )
    def test_equals_what_shapiq_computes(self, name, order):
        shapiq = pytest.importorskip("shapiq")
        game = Game(1, n=4, rows=2, k=2, count=9)
        ex = game.explain()

        def play(masks):
            return np.array([game.v(frozenset(np.flatnonzero(m)))[1, 0] for m in np.asarray(masks, dtype=bool)])

        found = ex.to_shapiq(1, name, order, output=0)
        reference = shapiq.ExactComputer(play, n_players=4)(name, order=order)
        assert isinstance(found, shapiq.InteractionValues)
        if name != "Moebius":  # of which shapiq computes all orders whatever it is asked for
            assert found.index == reference.index
            assert found.max_order == reference.max_order == order
        assert found.n_players == 4
        assert found.baseline_value == reference.baseline_value == game.base[0]
        # shapiq solves FSII by least squares with huge weights on both ends, and is itself good to 1e-9 there.
        tolerance = 1e-7 if name == "FSII" else 1e-12
        for size in range(1, order + 1):
            for members in combinations(range(4), size):
                assert abs(found[members] - reference[members]) < tolerance, members

    def test_what_its_plots_ask_for(self):
        pytest.importorskip("shapiq")
        ex = Game(1, n=4, count=15).explain()
        found = ex.to_shapiq(0, "k-SII", 2)
        first, second = found.get_n_order_values(1), found.get_n_order_values(2)
        own = ex.index("k-SII", 2)
        assert found[()] == found.baseline_value == ex.base_values
        for i in range(4):
            assert first[i] == own[(i,)][0]
        for i, j in combinations(range(4), 2):
            assert second[i, j] == second[j, i] == own[(i, j)][0]
        assert set(found.get_n_order(2).interaction_lookup) == set(combinations(range(4), 2))
        assert set(found.get_n_order(1).dict_values) == {(i,) for i in range(4)}
        assert len(found.get_top_k(3).dict_values) >= 3
        close(found.values.sum(), ex.outputs[0])

    @pytest.mark.parametrize("plot", ["plot_network", "plot_waterfall", "plot_stacked_bar"])
    def test_its_plots_work(self, plot):
        pytest.importorskip("shapiq")
        pyplot = pytest.importorskip("matplotlib.pyplot")
        getattr(Game(1, count=15).explain().to_shapiq(0, "k-SII", 2), plot)(show=False)
        assert pyplot.get_fignums()
        pyplot.close("all")

    def test_thirty_features_stay_sparse(self):
        pytest.importorskip("shapiq")
        coalitions = np.zeros((29, 30), dtype=bool)
        coalitions[np.arange(29), np.arange(29)] = coalitions[np.arange(29), np.arange(1, 30)] = True
        ex = Explanation(base_values=np.zeros(1), coalitions=coalitions, dividends=np.ones((1, 29, 1)))
        for name, order in (("SII", 2), ("k-SII", 3), ("Moebius", 30)):
            found = ex.to_shapiq(0, name, order)
            assert len(found.interaction_lookup) == len(found.values) == 1 + 30 + 29
        assert found.get_n_order(2).values.tolist() == [1.0] * 29

    def test_the_largest_output_of_the_row_unless_another_is_named(self):
        pytest.importorskip("shapiq")
        ex = Game(7, k=3, rows=4).explain(output_names=["red", "green", "blue"])
        for row in (0, 1, 2, 3, -1):
            largest = int(np.argmax(ex.outputs[row]))
            found = ex.to_shapiq(row, "SV", 1)
            for i in range(4):
                assert abs(found[(i,)] - ex.values[row, i, largest]) < 1e-12
            assert found.baseline_value == ex.base_values[largest]
            named = ex.to_shapiq(row, "SV", 1, output="blue")
            assert abs(named[(2,)] - ex.values[row, 2, 2]) < 1e-12

    def test_of_a_restriction(self):
        pytest.importorskip("shapiq")
        part = Game(1, n=5, rows=3, count=20).explain().restrict([1, 2])
        found = part.to_shapiq(2, "STII", 2)
        assert found.baseline_value == part.base_values[2]
        close(found.values.sum(), part.outputs[2])

    @pytest.mark.parametrize("name", INDICES)
    def test_the_default_order_suits_every_index_and_a_single_feature(self, name):
        pytest.importorskip("shapiq")
        assert Game(1).explain().to_shapiq(0, name).max_order == (1 if name in ("SV", "BV") else 2)
        assert Game(1, n=1, count=1).explain().to_shapiq(0, name).max_order == 1

    def test_without_shapiq_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "shapiq", None)
        with pytest.raises(ImportError, match=re.escape("this needs shapiq: pip install 'harsanyinet[shapiq]'")):
            Game(1).explain().to_shapiq(0)

    @pytest.mark.parametrize("plot", ["network", "si_graph", "stacked_bar", "force", "waterfall", "upset"])
    @pytest.mark.needs("matplotlib")
    @pytest.mark.needs("shapiq")
    def test_plots_show_names(self, plot):
        import matplotlib.pyplot as plt
        from matplotlib.text import Text

        names = ["the first of all", "second", "third", "fourth"]
        found = Game(3, rows=2, count=12).explain(feature_names=names).to_shapiq(0, "k-SII", 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(found, f"plot_{plot}")(show=False)
            texts = " ".join(t.get_text() for t in plt.gcf().findobj(Text))
            plt.close("all")
            getattr(found, f"plot_{plot}")(feature_names=list("wxyz"), show=False)
        assert "the first of all" in texts
        assert "the first of all" not in " ".join(t.get_text() for t in plt.gcf().findobj(Text))
        plt.close("all")


class TestFrame:
    @pytest.mark.parametrize("k", [1, 3])
    @pytest.mark.parametrize("kind", [None, "float", "mixed"])
    def test_one_line_per_row_output_and_feature(self, k, kind):
        data = {
            None: None,
            "float": np.arange(8.0).reshape(2, 4),
            "mixed": np.array([["a", 1, None, 2.5], ["b", 2, True, np.nan]], dtype=object),
        }[kind]
        ex = Game(1, k=k).explain(feature_names=list("wxyz"), output_names=list("rgb")[:k], data=data)
        frame = ex.to_frame()
        assert list(frame.columns) == ["row", "output", "feature", "data", "shapley_value"]
        assert len(frame) == 2 * k * 4
        lines = frame.itertuples(index=False)
        for row, output, feature in product(range(2), range(k), range(4)):
            line = next(lines)
            assert (line.row, line.output, line.feature) == (row, "rgb"[output], "wxyz"[feature])
            assert line.shapley_value == ex.values.reshape(2, 4, k)[row, feature, output]
            cell = np.nan if data is None else data[row, feature]
            assert line.data == cell or (pd.isna(line.data) and pd.isna(cell))

    def test_of_no_rows(self):
        frame = Game(1, rows=0, k=2).explain().to_frame()
        assert len(frame) == 0
        assert list(frame.columns) == ["row", "output", "feature", "data", "shapley_value"]

    def test_pivots_back_to_the_values(self):
        ex = Game(1, rows=3).explain(feature_names=["b", "a", "d", "c"])
        wide = ex.to_frame().pivot(index="row", columns="feature", values="shapley_value")
        assert np.array_equal(wide[ex.feature_names].to_numpy(), ex.values)


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "some.explanation"

    @pytest.mark.parametrize("k", [1, 3])
    @pytest.mark.parametrize("rows", [0, 1, 3])
    @pytest.mark.parametrize("dtype", [None, np.float64, np.float32, np.int64, bool])
    def test_numbers_come_back_to_the_bit(self, path, k, rows, dtype):
        data = None if dtype is None else (np.arange(rows * 4).reshape(rows, 4) - 3).astype(dtype)
        ex = Game(1, rows=rows, k=k).explain(
            feature_names=["a", "b", "naïve\n", "<d>"], output_names=list("rgb")[:k], data=data
        )
        ex.save(path)
        back = Explanation.load(path)
        same(back, ex)
        if dtype is None:
            assert back.data is None
        else:
            assert back.data.dtype == dtype
            assert np.array_equal(back.data, data)

    def test_missing_and_infinite_numbers(self, path):
        data = np.array([[np.nan, np.inf, -np.inf, -0.0]])
        Game(1, rows=1).explain(data=data).save(path)
        assert np.array_equal(Explanation.load(path).data, data, equal_nan=True)

    def test_mixed_data_keeps_its_types(self, path):
        data = np.array(
            [["text", 3, True, 2.5], [np.str_("<b>"), np.int64(4), np.bool_(False), np.float32(0.5)]], object
        )
        Game(1).explain(data=data).save(path)
        back = Explanation.load(path).data
        assert back.dtype == object
        assert back.tolist() == [["text", 3, True, 2.5], ["<b>", 4, False, 0.5]]
        assert [[type(cell) for cell in line] for line in back.tolist()] == [[str, int, bool, float]] * 2

    @pytest.mark.parametrize("missing", [None, np.nan, np.float64("nan"), pd.NA, pd.NaT], ids=repr)
    def test_what_is_missing_in_mixed_data_stays_missing(self, path, missing):
        data = np.array([["a", missing, 1, 2]], dtype=object)
        Game(1, rows=1).explain(data=data).save(path)
        back = Explanation.load(path).data[0].tolist()
        assert [back[0], *back[2:]] == ["a", 1, 2]
        assert pd.isna(back[1])

    def test_what_is_infinite_in_mixed_data_is_not_lost(self, path):
        data = np.array([["a", np.inf, -np.inf, 2]], dtype=object)
        Game(1, rows=1).explain(data=data).save(path)
        assert Explanation.load(path).data.tolist() == data.tolist()

    @pytest.mark.parametrize("unit", ["D", "s", "ns"])
    def test_dates_are_read_as_dates(self, path, unit):
        data = np.full((1, 4), "2024-02-29", dtype=f"datetime64[{unit}]")
        Game(1, rows=1).explain(data=data).save(path)
        assert all(str(cell).startswith("2024-02-29") for cell in Explanation.load(path).data[0])

    @pytest.mark.parametrize("cell", [(1, 2), [1, 2], np.arange(2), pd.Timestamp("2024-02-29"), {"a": 1}], ids=repr)
    def test_a_cell_of_any_other_kind_becomes_text(self, path, cell):
        data = np.full((1, 4), "text", dtype=object)
        data[0, 2] = cell
        Game(1, rows=1).explain(data=data).save(path)
        assert Explanation.load(path).data.tolist() == [["text", "text", str(cell), "text"]]

    def test_strings_of_fixed_width_and_no_rows(self, path):
        Game(1, rows=1).explain(data=np.array([["a", "bb", "", "d"]])).save(path)
        assert Explanation.load(path).data.tolist() == [["a", "bb", "", "d"]]
        Game(1, rows=0).explain(data=np.empty((0, 4), dtype=object)).save(path)
        assert Explanation.load(path).data.shape == (0, 4)

    @pytest.mark.parametrize("k", [1, 2])
    def test_a_restriction_keeps_one_base_per_row(self, path, k):
        part = Game(1, n=5, rows=3, k=k, count=20).explain().restrict([3, 0])
        part.save(path)
        back = Explanation.load(path)
        same(back, part)
        same(back[1], part[1])

    def test_lazy_dividends_are_written(self, path):
        game = Game(1)
        ex = Explanation(
            base_values=game.base,
            coalitions=game.masks,
            dividends=lambda: game.dividends,
            values=game.explain().values[..., None],
        )
        ex.save(path)
        same(Explanation.load(path), game.explain())

    def test_no_coalition(self, path):
        ex = Game(1, count=0).explain()
        ex.save(path)
        same(Explanation.load(path), ex)

    def test_an_explanation_answers_without_what_made_it(self, path):
        game = Game(1, n=4, k=2, count=9)
        game.explain().save(path)
        back = Explanation.load(path)
        close(back.value(mask_of({0, 2}, 4)), game.v(frozenset({0, 2})))
        close(back.restrict([1]).values[:, 0], game.v(frozenset(range(4))) - game.v(frozenset({0, 2, 3})))

    def test_another_kind_of_file(self, path):
        from harsanyinet.files import ModelFileError, save_arrays

        save_arrays(path, "model", {}, {})
        with pytest.raises(ModelFileError, match=r"cannot load an explanation from .* it holds a model"):
            Explanation.load(path)
        with pytest.raises(FileNotFoundError, match="there is no such file"):
            Explanation.load(path.with_name("other"))


class TestRepr:
    def test_counts_and_the_strongest_features(self):
        ex = Explanation(
            base_values=np.zeros(1),
            coalitions=np.eye(7, dtype=bool),
            dividends=np.array([[1.0], [-7.0], [2.0], [3.0], [0.0], [-5.0], [6.0]])[None],
            feature_names=["one", "seven", "two", "three", "none", "five", "six"],
        )
        assert repr(ex) == (
            "Explanation(1 rows, 7 features, 1 outputs, 7 coalitions)\n"
            "  mean |value|: seven 7, six 6, five 5, three 3, two 2, ..."
        )
        assert repr(ex.restrict(["two", "six"])).endswith("mean |value|: six 6, two 2")

    def test_no_rows(self):
        ex = Game(1, rows=0).explain()
        assert repr(ex) == "Explanation(0 rows, 4 features, 1 outputs, 6 coalitions)"
        assert "0 rows" in ex._repr_html_()

    @pytest.mark.parametrize("k", [1, 2, 5])
    @pytest.mark.parametrize("rows", [1, 2, 20])
    def test_html_is_well_formed(self, k, rows):
        from xml.etree import ElementTree

        names = [f"feature <{i}> & 'more'" for i in range(12)]
        ex = Game(1, n=12, rows=rows, k=k, count=50).explain(feature_names=names, data=np.ones((rows, 12)))
        page = ElementTree.fromstring(ex._repr_html_())
        table = page.find("table")
        head, lines = table.find("thead/tr"), table.findall("tbody/tr")
        assert 0 < len(lines) <= 12
        assert {len(list(line)) for line in lines} == {len(list(head))}
        assert len(list(head)) == 1 + min(rows, 3) * min(k, 3)
        strongest = int(np.argmax(np.abs(ex.values[:3].reshape(-1, 12, k)).mean(axis=(0, 2))))
        assert lines[0].find("th").text == names[strongest]
        assert f"{ex.outputs.reshape(rows, k)[0, 0]:.4g}" in list(head)[1].text

    def test_bars_show_size_and_sign(self):
        ex = Explanation(
            base_values=np.zeros(1), coalitions=np.eye(3, dtype=bool), dividends=np.array([[[-4.0], [2.0], [1.0]]])
        )
        bars = re.findall(r"width:(\d+)px;background:(#\w+)", ex._repr_html_())
        widths = [int(width) for width, _ in bars]
        assert 150 > widths[0] > widths[1] > widths[2]
        assert abs(widths[0] / widths[1] - 2) < 0.1  # whole pixels
        assert abs(widths[0] / widths[2] - 4) < 0.3
        assert bars[0][1] != bars[1][1] == bars[2][1]

    def test_names_and_data_cannot_inject(self):
        evil = "<script>alert('x')</script>"
        data = np.array([[evil, 1, None, 2.5]], dtype=object)
        ex = Game(1, rows=1, k=2).explain(
            feature_names=[evil, "a&b", '"quoted"', "d"], output_names=[evil, "<b>"], data=data
        )
        page = ex._repr_html_()
        assert "<script" not in page
        assert "<b>" not in page
        assert page.count("&lt;script&gt;") == 4  # the feature, one output, and the data under both outputs

    def test_says_when_it_does_not_show_everything(self):
        assert "first rows" not in Game(1, n=4, rows=3).explain()._repr_html_()
        assert "first rows" in Game(1, n=4, rows=4).explain()._repr_html_()
        assert "first rows" in Game(1, n=12, rows=3, count=50).explain()._repr_html_()

    def test_all_values_zero(self):
        game = Game(1)
        game.dividends[:] = 0
        assert "nan" not in game.explain()._repr_html_()
