"""`harsanyinet demo --images`: train on small digits, check the maps by brute force, draw them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harsanyinet.datasets import load_digit_images
from harsanyinet.demos.table_demo import Say, certified, draw
from harsanyinet.images.image_estimator import HarsanyiImageClassifier
from harsanyinet.plots import maps


def run_image_demo(out: Path, *, say: Say, seed: int = 0, quick: bool = False) -> bool:
    """Runs the demonstration on images and writes its maps and model to a folder; as `run_demo`, quick in one epoch."""
    out.mkdir(parents=True, exist_ok=True)
    data = load_digit_images()
    say(f"Data: {data.name}, {len(data.train):,} images to train on and {len(data.test):,} to test ({data.source})")
    model = HarsanyiImageClassifier(channels=32, n_blocks=2, epochs=1 if quick else 20, random_state=seed)
    model.fit(data.train, data.y_train)
    accuracy = 100 * model.score(data.test, data.y_test)
    height, width = model.cells_
    say(f"Trained in {model.history_.seconds:.0f} s. Accuracy on the test images: {accuracy:.2f} %")
    half = np.random.default_rng(seed).random((len(data.test), height * width)) < 0.5
    hidden = float((model.predict(data.test, present=half) == data.y_test).mean())
    say(f"With half of the {height} x {width} cells hidden at random: {100 * hidden:.2f} %")
    shown = data.test[:4]
    ex = model.explain(shown)
    passed = certified(model, shown[:1], "float32", say).passed
    model.save(out / "images.hnet")
    titles = [f"true: {data.class_names[y]}" for y in data.y_test[:4]]
    drawn = draw(
        {
            "maps.png": lambda: maps.plot_maps(ex, shown, titles=titles),
            "cell_interactions.png": lambda: maps.plot_cell_interactions(ex, shown[0], 0),
        },
        out,
    )
    say(f"Wrote to {out}/: {', '.join(['images.hnet', *drawn])}")
    return passed
