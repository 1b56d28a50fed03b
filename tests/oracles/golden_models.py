"""The golden net: models built from seeds, and what they said when they were recorded.

`python tests/oracles/golden_models.py` writes the files of `tests/golden` anew; with `--check` it writes them to a
temporary folder and says which differ by a single bit. A change of form keeps every bit. A change of arithmetic is
recorded anew in a commit of its own, after `tests/test_golden.py` has passed on the old files: that test reads them and
allows 1e-12.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parents[1] / "golden"
MLPS = [(gate, connect) for gate in ("activation", "presence") for connect in ("previous", "all")]
CNNS = {
    "location": {"gate": "presence", "children": "location"},
    "group": {"gate": "presence", "children": "group", "groups": 2, "strides": [1, 2]},
    "activation": {"gate": "activation"},
}
TABLES = ("binary", "multiclass", "two_targets", "missing_values")
MODEL_FILES = ("mlp", "cnn", *TABLES, "images")


def table(n_rows: int = 240) -> pd.DataFrame:
    """Numbers, texts with gaps, truths and dates."""
    rng = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "size": rng.normal(size=n_rows).round(3),
            "weight": rng.exponential(size=n_rows).round(3),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "sold": rng.random(n_rows) > 0.4,
            "day": pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 700, n_rows), unit="D"),
        }
    )


def holed(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table with values missing in two columns."""
    rng = np.random.default_rng(8)
    frame = frame.copy()
    frame.loc[rng.random(len(frame)) < 0.2, "weight"] = np.nan
    frame.loc[rng.random(len(frame)) < 0.1, "colour"] = None
    return frame


def rows_of(name: str) -> pd.DataFrame:
    """The rows that an estimator is asked about."""
    frame = holed(table()) if name == "missing_values" else table()
    return frame.iloc[:9]


def pictures(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Grey pictures of three classes: a bright square in one of three corners."""
    rng = np.random.default_rng(9)
    y = rng.integers(0, 3, n)
    images = rng.integers(0, 90, (n, 8, 8), dtype=np.uint8)
    for image, label in zip(images, y, strict=True):
        image[(label // 2) * 4 :, (label % 2) * 4 :][:4, :4] += np.uint8(150)
    return images, np.array(["corner", "right", "below"])[y]


def mlp(gate: str, connect: str) -> Any:
    """A small dense network in float64, straight from its seed."""
    import torch

    from harsanyinet import HarsanyiMLP

    more = {"channels": 3, "columns": [0, 1, 1, 2, 3, 4]} if gate == "presence" else {"initial_children": 2}
    net = HarsanyiMLP(
        6, 2, n_blocks=3, width=14, gate=gate, connect=connect, gamma=5.0, seed=3, dtype=torch.float64, **more
    )
    return net.eval()


def cnn(name: str) -> Any:
    """A small convolutional network in float64, straight from its seed."""
    from harsanyinet import HarsanyiCNN

    return HarsanyiCNN(1, 8, 3, channels=4, n_blocks=2, seed=4, rank=2, **CNNS[name]).double().eval()


def estimator(name: str) -> Any:
    """A fitted model of a table."""
    from harsanyinet import HarsanyiClassifier, HarsanyiRegressor

    frame = holed(table()) if name == "missing_values" else table()
    plain = table()
    score = plain["size"] + (plain["colour"] == "red") * plain["weight"] - plain["sold"] * 0.7
    settings: dict[str, Any] = {"max_iter": 25, "max_depth": 3, "learning_rate": 0.2, "random_state": 0, "n_jobs": 1}
    if name == "multiclass":
        return HarsanyiClassifier(**settings).fit(frame, pd.cut(score, 3, labels=["low", "middle", "high"]).astype(str))
    if name == "two_targets":
        both = np.stack([score, plain["weight"] * plain["size"]], axis=1)
        return HarsanyiRegressor(**settings, members=2).fit(frame, both)
    return HarsanyiClassifier(**settings).fit(frame, (score > 0.3).astype(int))


def image_classifier() -> Any:
    """A classifier of pictures after one epoch."""
    from harsanyinet import HarsanyiImageClassifier

    model = HarsanyiImageClassifier(channels=4, n_blocks=2, epochs=1, batch_size=20, random_state=0, progress=False)
    return model.fit(*pictures())


def of_explanation(explanation: Any) -> dict[str, np.ndarray]:
    """What is recorded of an explanation."""
    return {
        "values": explanation.values,
        "base_values": np.asarray(explanation.base_values),
        "coalitions": np.packbits(explanation.coalitions, axis=1),
        "dividends": explanation.dividends,
        "pairs": explanation.index("SII", order=2).values,
    }


def said_by_networks() -> dict[str, np.ndarray]:
    """Outputs, with and without players, and explanations of networks made from their seeds."""
    import torch

    said: dict[str, np.ndarray] = {}
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(7, 6, generator=generator, dtype=torch.float64)
    images = torch.rand(2, 1, 8, 8, generator=generator, dtype=torch.float64)
    networks = {f"mlp.{gate}.{connect}": (mlp(gate, connect), x) for gate, connect in MLPS}
    networks |= {f"cnn.{name}": (cnn(name), images) for name in CNNS}
    for name, (net, rows) in networks.items():
        present = torch.arange(net.n_players) % 3 != 1
        with torch.no_grad():
            said |= {f"{name}.outputs": net(rows).numpy(), f"{name}.masked": net(rows, present=present).numpy()}
        said |= {f"{name}.{part}": array for part, array in of_explanation(net.explain(rows)).items()}
    return said


def said_by_files(folder: Path) -> dict[str, np.ndarray]:
    """What the models in files say."""
    import torch

    from harsanyinet import load

    said: dict[str, np.ndarray] = {}
    x = torch.linspace(-2, 2, 30, dtype=torch.float64).view(5, 6)
    for name, rows in (("mlp", x), ("cnn", torch.linspace(0, 1, 64, dtype=torch.float64).view(1, 1, 8, 8))):
        net = load(folder / f"{name}.hnet")
        said |= {f"file.{name}.{part}": array for part, array in of_explanation(net.explain(rows)).items()}
    for name in TABLES:
        model, rows = load(folder / f"{name}.hnet"), rows_of(name)
        outputs = model.predict(rows) if name == "two_targets" else model.decision_function(rows)
        said[f"file.{name}.outputs"] = outputs
        for game in ("missing", "marginal"):
            explained = of_explanation(model.explain(rows, game=game))
            said |= {f"file.{name}.{game}.{part}": array for part, array in explained.items()}
    model = load(folder / "images.hnet")
    model.network_.double()  # the weights are exact in it, and sums no longer depend on the machine
    images = pictures()[0][:3]
    said["file.images.outputs"] = model.decision_function(images)
    return said | {f"file.images.{part}": array for part, array in of_explanation(model.explain(images)).items()}


def record(folder: Path, image_model: Any = None) -> None:
    """Builds, fits and saves the models, and writes what they say."""
    from harsanyinet import save

    models = {"mlp": mlp("presence", "all"), "cnn": cnn("activation"), "images": image_model or image_classifier()}
    models |= {name: estimator(name) for name in TABLES}
    for name, model in models.items():
        save(model, folder / f"{name}.hnet")
    np.savez_compressed(folder / "said.npz", **said_by_networks(), **said_by_files(folder))


def content(path: Path) -> tuple[Any, bytes]:
    """Header and arrays of a model file: safetensors writes the entries of the header in no fixed order."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:start]), data[start:]


def differences(before: Path, after: Path) -> list[str]:
    """What differs by a bit between two folders."""
    files = [f"{name}.hnet" for name in MODEL_FILES]
    different = [name for name in files if content(before / name) != content(after / name)]
    with np.load(before / "said.npz") as old, np.load(after / "said.npz") as new:
        names = sorted(set(old) | set(new))
        return different + [
            name
            for name in names
            if name not in old or name not in new or old[name].tobytes() != new[name].tobytes()
            or old[name].dtype != new[name].dtype
        ]  # fmt: skip


def main(arguments: list[str]) -> int:
    """Records, or compares."""
    if arguments != ["--check"]:
        record(HERE)
        return 0
    from harsanyinet import load

    with tempfile.TemporaryDirectory() as folder:
        # Two trainings in float32 differ in their last bits, wherever memory is aligned otherwise.
        record(Path(folder), load(HERE / "images.hnet"))
        different = differences(HERE, Path(folder))
    sys.stdout.write("\n".join(different) + "\n" if different else "equal to the bit\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
