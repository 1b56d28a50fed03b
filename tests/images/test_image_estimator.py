"""HarsanyiImageClassifier on small images: accuracy, exactness, masks, files, augmentation, sentences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import harsanyinet
from harsanyinet import HarsanyiCNN, HarsanyiImageClassifier
from harsanyinet.cli import main
from harsanyinet.datasets.picture_sets import load_digit_images
from harsanyinet.games import brute_force_shapley

SMALL = {"channels": 16, "n_blocks": 2, "epochs": 12, "random_state": 0, "n_jobs": 1, "progress": False}


@pytest.fixture(scope="module")
def data():
    return load_digit_images()


@pytest.fixture(scope="module")
def model(data):
    return HarsanyiImageClassifier(**SMALL).fit(data.train, data.y_train)


def test_it_learns_and_predicts_from_a_part_of_the_image(model, data):
    assert model.score(data.test, data.y_test) > 0.95
    half = np.random.default_rng(0).random((len(data.test), 16)) < 0.5
    seen = (model.predict(data.test, present=half) == data.y_test).mean()
    assert seen > 0.85
    blind = HarsanyiImageClassifier(**SMALL, masked_share=0.0).fit(data.train, data.y_train)
    assert seen > (blind.predict(data.test, present=half) == data.y_test).mean() + 0.05
    assert model.explain(data.test[:50]).order_spectrum()[1] > 0.3  # single cells count
    np.testing.assert_allclose(model.predict_proba(data.test).sum(1), 1)
    assert (model.cells_, model.image_shape_) == ((4, 4), (8, 8, 1))
    assert model.pixels_per_cell_ == (7, 7)  # 8 x 8, of which the border cuts something off in so small an image


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gate": "activation", "stem": "paper"},
        {"children": "location"},
        {"groups": 4, "stem": "patch"},
        {"channels": [8, 16], "strides": [1, 2], "groups": 2},
        {"mixed_precision": True},
        {"mixed_precision": True, "gate": "activation", "stem": "paper"},
    ],
)
def test_a_fitted_model_is_exact(options, data, tmp_path):
    model = HarsanyiImageClassifier(**{**SMALL, "channels": 8, "epochs": 2, **options}).fit(data.train, data.y_train)
    model.save(tmp_path / "model.hnet")
    for each in (model, harsanyinet.load(tmp_path / "model.hnet")):
        each.network_.double()
        ex = each.explain(data.test[:2])
        exact = brute_force_shapley(each.game(data.test, 1), 16, progress=False)
        np.testing.assert_allclose(ex.values[1], exact, rtol=0, atol=1e-12 * max(1, np.abs(exact).max()))
        assert ex.feature_names[5] == "cell 1,1"
        assert list(ex.output_names) == list("0123456789")


def test_two_classes_have_one_logit(data):
    rows, test = data.y_train < 2, data.y_test < 2
    labels = np.array(["zero", "one"])[data.y_train[rows]]
    model = HarsanyiImageClassifier(**{**SMALL, "channels": 8, "epochs": 3}).fit(data.train[rows], labels)
    raw = model.decision_function(data.test[test])
    assert raw.shape == (test.sum(),)
    assert model.explain(data.test[test]).values.shape == (test.sum(), 16)
    assert model.score(data.test[test], np.array(["zero", "one"])[data.y_test[test]]) > 0.97
    np.testing.assert_array_equal(model.predict(data.test[test]), model.classes_[(raw > 0).astype(int)])


def test_the_same_seed_gives_the_same_bits(data):
    options = {**SMALL, "channels": 4, "epochs": 1, "flip": True, "crop": 1, "cutout": 2}
    a, b = (HarsanyiImageClassifier(**options).fit(data.train, data.y_train) for _ in range(2))
    np.testing.assert_array_equal(a.decision_function(data.test), b.decision_function(data.test))
    c = HarsanyiImageClassifier(**{**options, "random_state": 1}).fit(data.train, data.y_train)
    assert not np.array_equal(a.decision_function(data.test), c.decision_function(data.test))


@pytest.mark.parametrize("stop", [RuntimeError("power cut"), KeyboardInterrupt()])
def test_an_interrupted_fit_goes_on(data, tmp_path, stop):
    options = {**SMALL, "channels": 4, "epochs": 3, "crop": 1}
    whole = HarsanyiImageClassifier(**options).fit(data.train, data.y_train)
    calls = []

    class Stopped(HarsanyiImageClassifier):
        def _loss(self, outputs, y):
            calls.append(len(y))
            if sum(calls) > 2 * len(data.train) + 100:
                raise stop
            return super()._loss(outputs, y)

    options["checkpoint"] = tmp_path / "half.pt"
    with pytest.raises(type(stop)):
        Stopped(**options).fit(data.train, data.y_train)
    resumed = HarsanyiImageClassifier(**options).fit(data.train, data.y_train)
    np.testing.assert_array_equal(resumed.decision_function(data.test), whole.decision_function(data.test))
    assert resumed.history_.train_loss == whole.history_.train_loss
    for other in ({"epochs": 4}, {"crop": 0}, {"label_smoothing": 0.1}, {"channels": 8}, {"gate": "activation"}):
        with pytest.raises(ValueError, match=r"checkpoint must belong to this training .*delete it"):
            HarsanyiImageClassifier(**{**options, **other}).fit(data.train, data.y_train)
    for x, y in ((data.train[::-1], data.y_train), (data.train, data.y_train[::-1])):
        with pytest.raises(ValueError, match=r"checkpoint must belong to this training .*delete it"):
            HarsanyiImageClassifier(**options).fit(x, y)
    (tmp_path / "half.pt").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"checkpoint must be one that this training wrote, however: .*half.pt is not"):
        HarsanyiImageClassifier(**options).fit(data.train, data.y_train)


def test_a_folder_of_pictures(data, tmp_path):
    for label in (0, 1):
        (tmp_path / f"digit {label}").mkdir()
        for i, picture in enumerate(data.train[data.y_train == label][:20]):
            Image.fromarray(picture[..., 0]).save(tmp_path / f"digit {label}" / f"{i}.png")
    model = HarsanyiImageClassifier(**{**SMALL, "channels": 8}).fit(tmp_path)
    assert list(model.classes_) == ["digit 0", "digit 1"]
    keep = data.y_test < 2
    assert (model.predict(data.test[keep]) == [f"digit {y}" for y in data.y_test[keep]]).mean() > 0.9
    files = sorted(tmp_path.glob("*/*.png"), key=str)
    pixels = np.stack([np.asarray(Image.open(file)) for file in files])
    for ask in (model.predict, model.predict_proba, model.decision_function, lambda x: model.explain(x).values):
        np.testing.assert_array_equal(ask(tmp_path), ask(pixels))  # every picture, in the order of fit
        np.testing.assert_array_equal(ask(str(tmp_path / "digit 0")), ask(pixels[:20]))
        np.testing.assert_array_equal(ask(files[25]), ask(pixels[25:26]))
    np.testing.assert_array_equal(model.predict(tmp_path, present=[True] * 16), model.predict(pixels))
    (tmp_path / "empty").mkdir()
    for place, message in (
        (tmp_path / "no.png", "there is no such picture or folder"), (tmp_path / "empty", "must hold pictures"),
    ):  # fmt: skip
        with pytest.raises((ValueError, OSError), match=message):
            model.predict(place)
    Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(tmp_path / "colour.png")
    with pytest.raises(ValueError, match=r"images must be 8 x 8 x 1 .* as in fit, however: 8 x 8 x 3"):
        model.predict(tmp_path / "colour.png")
    (tmp_path / "colour.png").unlink()
    (tmp_path / "empty").rmdir()
    with pytest.raises(ValueError, match=r"y must be None where images is a folder"):
        model.fit(tmp_path, [0, 1])


def test_floats_and_bytes_are_the_same_images(model, data):
    np.testing.assert_allclose(
        model.decision_function(data.test / 255), model.decision_function(data.test[..., 0]), atol=1e-4
    )


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (np.zeros((3, 8)), r"images must have shape .*, however: \(3, 8\)"),
        (np.full((3, 8, 8), 300.0), r"images must be uint8 from 0 to 255 or floats from 0 to 1, however: float64 from"),
        (np.full((3, 8, 8), 200.0), r"use images.astype\(np.uint8\)"),
        (np.full((3, 8, 8), np.nan), r"however: float64 from nan to nan"),
        (np.full((3, 8, 8), "a"), r"images must hold numbers, however: <U1"),
        (np.zeros((3, 1, 8, 8), np.uint8), r"images must have their channels last, however: shape \(3, 1, 8, 8\)"),
        (np.zeros((3, 8, 9), np.uint8), r"images must be 8 x 8 x 1 \(height, width, channels\), .* however: 8 x 9 x 1"),
        (np.zeros((3, 8, 8, 3), np.uint8), r"images must be 8 x 8 x 1 .*, however: 8 x 8 x 3"),
    ],
)
def test_wrong_images(model, images, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.predict(images)


def test_wrong_labels_and_masks(model, data):
    with pytest.raises(
        ValueError, match=r"y must hold one label for each of the 3 images, however: y has shape \(2,\)"
    ):
        HarsanyiImageClassifier().fit(data.train[:3], [0, 1])
    with pytest.raises(ValueError, match=r"y must hold at least two classes, however: all labels are 1"):
        HarsanyiImageClassifier().fit(data.train[:3], [1, 1, 1])
    with pytest.raises(TypeError, match=r"present must be bool, True where a cell is there, however: int64"):
        model.predict(data.test[:2], present=np.ones((2, 16), dtype=int))
    for call in (model.predict, model.explain):
        with pytest.raises(ValueError, match=r"present must have shape \(16,\) or \(3, 16\), however: \(10, 16\)"):
            call(data.test[:3], present=np.ones((10, 16), dtype=bool))
    with pytest.raises(ValueError, match=r"present must have shape .* however: \(\)"):
        model.predict(data.test[:3], present=True)
    with pytest.raises(IndexError, match=r"row must lie between 0 and 2, however: row=3"):
        model.game(data.test[:3], 3)
    with pytest.raises(ValueError, match=r"images must hold at least two images, however: none"):
        HarsanyiImageClassifier().fit(np.zeros((0, 8, 8)), [])


def test_no_images_no_predictions(model):
    assert model.predict(np.zeros((0, 8, 8))).shape == (0,)
    assert model.predict_proba(np.zeros((0, 8, 8))).shape == (0, 10)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"crop": -1}, "crop must be at least 0, however: crop=-1"),
        ({"label_smoothing": 1.5}, r"label_smoothing must be in \[0, 1\), however: label_smoothing=1.5"),
        ({"epochs": 0}, "epochs must be a positive integer, however: epochs=0"),
        ({"groups": 0}, "groups must be at least 1, however: groups=0"),
        (
            {"stem": "patch", "patch": 3},
            "patch must divide the height and width of the images, however: patch=3, 8 x 8",
        ),
        ({"checkpoint": "nowhere/c.pt"}, "there is no folder .*nowhere; create it first"),
        ({"checkpoint": "c.pt", "random_state": None}, "random_state must be an integer where a checkpoint is kept"),
    ],
)
def test_wrong_settings(data, options, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        HarsanyiImageClassifier(**{**SMALL, **options}).fit(data.train, data.y_train)


def test_numbers_of_numpy_are_numbers(data, tmp_path):
    options = {"channels": np.int64(4), "n_blocks": np.int64(1), "epochs": np.int64(1), "gamma": np.float32(0.5)}
    model = HarsanyiImageClassifier(**{**SMALL, **options}).fit(data.train[:64], data.y_train[:64])
    harsanyinet.save(model.network_, tmp_path / "network.hnet")
    model.save(tmp_path / "model.hnet")


def test_a_certificate(model, data):
    certificate = harsanyinet.verify(model, data.test[:2])
    assert certificate.passed, str(certificate)
    assert certificate.checks[0].name == "receptive fields follow from the children"


def test_a_model_of_images_is_not_one_of_a_table(model, tmp_path, capsys):
    model.save(tmp_path / "model.hnet")
    assert main(["verify", str(tmp_path / "model.hnet"), "rows.csv"]) != 0
    assert "must hold a model of a table, however: it holds a HarsanyiImageClassifier" in capsys.readouterr().err


def test_files(model, data, tmp_path):
    model.save(tmp_path / "model.hnet")
    again = harsanyinet.load(tmp_path / "model.hnet")
    np.testing.assert_array_equal(again.decision_function(data.test), model.decision_function(data.test))
    assert again.get_params()["channels"] == 16
    assert again.classes_.dtype == model.classes_.dtype
    harsanyinet.save(model.network_, tmp_path / "network.hnet")
    net = harsanyinet.load(tmp_path / "network.hnet")
    assert isinstance(net, HarsanyiCNN)
    x = torch.rand(2, 1, 8, 8)
    assert torch.equal(net(x), model.network_(x))
    with pytest.raises(TypeError, match=r"a network with parts of your own cannot be saved"):
        harsanyinet.save(HarsanyiCNN(1, 8, 2, stem=torch.nn.Conv2d(1, 2, 2, stride=2)), tmp_path / "other.hnet")
