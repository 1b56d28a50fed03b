"""HarsanyiImageClassifier: images in, classes and exact Shapley values of the cells out. Wiring; no mathematics."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional as F

from harsanyinet import files
from harsanyinet.explanations.explanation import Explanation
from harsanyinet.explanations.names import check_present
from harsanyinet.images.cnn import HarsanyiCNN
from harsanyinet.images.cnn_settings import Children
from harsanyinet.images.conv_blocks import StemName, TauGradient
from harsanyinet.images.pixels import as_pixels, augmented, standardised
from harsanyinet.networks.settings import Gate
from harsanyinet.threads import count_threads
from harsanyinet.training import TrainingConfig, fit_module

Array = NDArray[Any]
Images = ArrayLike | str | os.PathLike[str]
_CHUNK = 256  # images per pass in prediction


@dataclass(kw_only=True, eq=False, repr=False)
class HarsanyiImageClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of images whose every prediction comes with the exact Shapley value of each cell for each class.

    Args:
        channels, n_blocks, children, strides, patch, readout, beta, gamma, tau_gradient: As in `HarsanyiCNN`.
        gate: `"presence"`, or `"activation"` for the paper's block.
        groups: Groups of channels that look at different neighbours, one of them at none: what a single cell says is
            what is left when others are hidden. By default 2 where children are chosen per group.
        stem: What turns pixels into cells: `"deep"`, `"residual"`, `"paper"` or `"patch"`, see
            `conv_blocks.make_stem`.
        tau_rate: Rate of plain SGD steps for the child logits, which the clip of the gradient then does not see; None:
            AdamW, like all other weights, where the steepness beta cancels but for the clip.
        masked_share: Share of the training images that are shown with absent cells, so that what the model says of a
            part of an image is a prediction from that part.
        flip: Whether training images are mirrored at random.
        crop: Training images are moved by up to so many pixels.
        cutout: Height and width of a square that is blackened in every training image; 0 for none.
        label_smoothing: Share of the label that is spread over all classes.
        epochs: Passes over the training images; by default about 600,000 images are seen, in 8 to 40 passes.
        batch_size: Images per step.
        learning_rate: At the top of a one-cycle schedule.
        weight_decay: Decoupled.
        checkpoint: A file that is written after each epoch and from which an interrupted fit goes on.
        random_state: Of weights, order, masks and augmentation.
        n_jobs: Threads of `fit`; by default torch's. Prediction takes torch's: how many those are holds for the whole
            process, which is not for a prediction to change.
        device: `"cpu"` or a torch device.
        mixed_precision: Whether convolutions are trained in bfloat16, which pays on a GPU and on processors that
            multiply such numbers (1.5 to 1.8 times as fast). Prediction and explanation are in float32 all the same.
        progress: Whether to show a bar once two seconds have passed.

    Attributes:
        classes_: The labels.
        network_: The `HarsanyiCNN`, on the CPU.
        history_: What happened in each epoch.
        image_shape_: Height, width and channels of an image.
        cells_: Height and width of the map of values.
        pixels_per_cell_: The window of pixels behind a cell, at most.

    Examples:
        >>> from harsanyinet.datasets import load_digit_images
        >>> data = load_digit_images()
        >>> model = HarsanyiImageClassifier(channels=8, n_blocks=2, epochs=2, random_state=0, progress=False)
        >>> ex = model.fit(data.train, data.y_train).explain(data.test[:3])
        >>> ex.values.reshape(3, *model.cells_, 10).shape
        (3, 4, 4, 10)
    """

    channels: int | Sequence[int] = 64
    n_blocks: int = 4
    gate: Gate = "presence"
    children: Children | None = None
    groups: int | None = None
    strides: Sequence[int] | None = None
    stem: StemName = "deep"
    patch: int = 2
    readout: Literal["shared", "cell"] = "cell"
    beta: float = 100.0
    gamma: float = 0.05
    tau_gradient: TauGradient = "formula"
    tau_rate: float | None = None
    masked_share: float = 0.3
    flip: bool = False
    crop: int = 0
    cutout: int = 0
    label_smoothing: float = 0.0
    epochs: int | None = None
    batch_size: int = 64
    learning_rate: float = 1e-2
    weight_decay: float = 0.05
    checkpoint: str | os.PathLike[str] | None = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    device: str = "cpu"
    mixed_precision: bool = False
    progress: bool = True

    def fit(self, images: Images, y: ArrayLike | None = None) -> Self:
        """Fits to images with their labels, or to a folder that holds one folder of pictures per class.

        Args:
            images: (N, height, width) or (N, height, width, channels), uint8 or floats from 0 to 1; or a path.
            y: (N,) labels; None with a path.
        """
        if isinstance(images, str | os.PathLike):
            if y is not None:
                raise ValueError(
                    "y must be None where images is a folder, whose folders are the labels, however: given"
                )
            from harsanyinet.datasets import read_folder

            images, y = read_folder(images)
        pixels = as_pixels(images)
        if not len(pixels):
            raise ValueError("images must hold at least two images, however: none")
        if y is None or np.shape(y) != (len(pixels),):
            given = "none were given" if y is None else f"y has shape {np.shape(y)}"
            raise ValueError(f"y must hold one label for each of the {len(pixels)} images, however: {given}")
        self.classes_, labels = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least two classes, however: all labels are {self.classes_[0]}")
        self._check_settings()
        seed = int(check_random_state(self.random_state).randint(2**31))
        x = torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))  # (N, C, H, W), as it came
        self.image_shape_: tuple[int, int, int] = pixels.shape[1:]
        n_classes, groups = len(self.classes_), self.groups
        if groups is None:
            per_group = (self.children or ("group" if self.gate == "presence" else "location")) == "group"
            groups = math.gcd(2, *np.ravel(self.channels).tolist()) if per_group else 1
        net = HarsanyiCNN(
            x.shape[1], (x.shape[2], x.shape[3]), 1 if n_classes == 2 else n_classes, channels=self.channels,
            n_blocks=self.n_blocks, gate=self.gate, children=self.children, groups=groups, strides=self.strides,
            stem=self.stem, patch=self.patch, readout=self.readout, beta=self.beta, gamma=self.gamma, seed=seed,
            tau_gradient=self.tau_gradient,
        )  # fmt: skip
        self.mean_, self.scale_ = self._standardise(x)
        module = _Standardised(net, self.mean_, self.scale_, self.mixed_precision).to(self.device)
        epochs = int(np.clip(600_000 // len(x), 8, 40)) if self.epochs is None else self.epochs
        config = TrainingConfig(
            epochs=epochs, batch_size=self.batch_size, learning_rate=self.learning_rate, schedule="onecycle",
            weight_decay=self.weight_decay, masked_share=self.masked_share, clip_norm=1.0, apart_rate=self.tau_rate,
        )  # fmt: skip
        changed: dict[str, Any] = {"flip": self.flip, "crop": self.crop, "cutout": self.cutout}
        others = {**changed, "label_smoothing": self.label_smoothing}
        with self._threads():
            self.history_ = fit_module(
                module, x.to(self.device), torch.from_numpy(labels).to(self.device), loss=self._loss, config=config,
                n_players=net.n_players, seed=seed, progress=self.progress,
                augment=partial(augmented, **changed) if any(changed.values()) else None,
                checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
                about=f"{net.config}, {others}, classes {self.classes_.tolist()}",
            )  # fmt: skip
        self._finish(net)
        return self

    def _check_settings(self) -> None:
        for name, value in (("crop", self.crop), ("cutout", self.cutout)):
            if not value >= 0:
                raise ValueError(f"{name} must be at least 0, however: {name}={value}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), however: label_smoothing={self.label_smoothing}")
        if self.checkpoint is not None:
            files.check_place(self.checkpoint)
            if not isinstance(self.random_state, Integral):
                raise ValueError(
                    "random_state must be an integer where a checkpoint is kept, or a stopped fit could not go on, "
                    f"however: random_state={self.random_state!r}"
                )

    def _standardise(self, x: Tensor) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel; in the paper's gate black stays zero."""
        sample = x[:: max(1, len(x) // 5000)].double()
        sample = sample / 255 if x.dtype == torch.uint8 else sample
        mean = sample.mean((0, 2, 3)) if self.gate == "presence" else torch.zeros(x.shape[1]).double()
        spread = (sample - mean[:, None, None]).square().mean((0, 2, 3)).sqrt().clamp_min(1e-3)
        return mean.tolist(), spread.tolist()

    def _loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        if outputs.shape[1] == 1:
            target = y.to(outputs.dtype) * (1 - self.label_smoothing) + self.label_smoothing / 2
            return F.binary_cross_entropy_with_logits(outputs[:, 0], target, reduction="none")
        return F.cross_entropy(outputs, y, reduction="none", label_smoothing=self.label_smoothing)

    def _finish(self, net: HarsanyiCNN) -> None:
        self.network_ = net.cpu().eval()
        self.cells_ = net.cells
        self.pixels_per_cell_ = net.pixels_per_cell

    def decision_function(self, images: Images, present: ArrayLike | None = None) -> Array:
        """Raw outputs: (B,), the logit of classes_[1], for two classes, else (B, K).

        Args:
            images: Arrays, as for `fit`; or the path of a picture, of a folder of pictures, or of one as for `fit`,
                whose pictures are taken in the order of their names.
            present: (P,) or (B, P) bool, which cells are there, row by row.
        """
        with torch.inference_mode():
            parts = [self.network_(x, present=mask).double().numpy() for x, mask in self._chunks(images, present)]
        out = np.concatenate(parts)
        return np.asarray(out[:, 0] if out.shape[1] == 1 else out)

    def predict_proba(self, images: Images, present: ArrayLike | None = None) -> Array:
        """(B, K) probabilities of classes_."""
        raw = self.decision_function(images, present)
        if raw.ndim == 1:
            raw = np.stack([np.zeros_like(raw), raw], axis=1)
        return np.asarray(softmax(raw, axis=1))

    def predict(self, images: Images, present: ArrayLike | None = None) -> Array:
        """(B,) labels."""
        raw = self.decision_function(images, present)
        return np.asarray(self.classes_[(raw > 0).astype(int) if raw.ndim == 1 else raw.argmax(1)])

    def explain(self, images: Images, present: ArrayLike | None = None) -> Explanation:
        """Exact Shapley values of all cells for all classes; ``ex.values.reshape(B, *model.cells_, K)`` are maps."""
        ((x, mask),) = self._chunks(images, present, whole=True)
        height, width = self.cells_
        names = list(map(str, self.classes_[1:] if self.network_.n_outputs == 1 else self.classes_))
        explanation = self.network_.explain(
            x, mask, output_names=names,
            feature_names=[f"cell {row},{column}" for row in range(height) for column in range(width)],
        )  # fmt: skip
        explanation.scale = "log-odds" if len(names) == 1 else "logit"
        return explanation

    def game(self, images: Images, row: int = 0) -> Callable[[NDArray[np.bool_]], Array]:
        """The game of one image, played by real predictions: masks (m, P) bool -> raw outputs (m,) or (m, K)."""
        pixels = self._seen(images)
        if not 0 <= row < len(pixels):
            raise IndexError(f"row must lie between 0 and {len(pixels) - 1}, however: row={row}")
        one = pixels[row : row + 1]

        def play(masks: NDArray[np.bool_]) -> Array:
            return self.decision_function(np.broadcast_to(one, (len(masks), *one.shape[1:])), masks)

        return play

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to one file; `harsanyinet.load` reads it and runs no code from it."""
        files.save_arrays(path, type(self).__name__, *self.to_arrays())

    def to_onnx(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Writes an ONNX file that predicts and explains without this package; see `harsanyinet.to_onnx`."""
        import harsanyinet  # the room that exports stands above this one: through the front door

        check_is_fitted(self)
        harsanyinet.to_onnx(self, path, **options)

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The fitted model as arrays and JSON."""
        check_is_fitted(self)
        arrays, network = self.network_.to_arrays()
        return arrays, {
            "params": {name: files.plain(value) for name, value in self.get_params(deep=False).items()},
            "network": network, "classes": files.plain_labels(self.classes_), "mean": self.mean_,
            "scale": self.scale_, "image_shape": list(self.image_shape_),
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> Self:
        """From what `to_arrays` returned."""
        model = cls(**meta["params"])
        model.classes_ = files.labels(meta["classes"])
        model.mean_, model.scale_, model.image_shape_ = meta["mean"], meta["scale"], tuple(meta["image_shape"])
        model._finish(HarsanyiCNN.from_arrays(arrays, meta["network"]))
        return model

    def _seen(self, images: Images) -> Array:
        """Pixels of images or pictures; of grey pictures in three channels where the model has three."""
        check_is_fitted(self)
        if not isinstance(images, str | os.PathLike):
            return as_pixels(images)
        from harsanyinet.datasets import read_pictures

        pixels: Array = read_pictures(images)
        return np.repeat(pixels, 3, axis=3) if pixels.shape[3] == 1 and self.image_shape_[2] == 3 else pixels

    def _chunks(
        self, images: Images, present: ArrayLike | None, whole: bool = False
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Checked and standardised images with their masks, a few at a time."""
        pixels = self._seen(images)
        if pixels.shape[1:] != self.image_shape_:
            wanted, given = (" x ".join(map(str, shape)) for shape in (self.image_shape_, pixels.shape[1:]))
            raise ValueError(f"images must be {wanted} (height, width, channels), as in fit, however: {given}")
        mask = None
        if present is not None:
            wanted = "bool, True where a cell is there"
            masks = check_present(present, len(pixels), self.network_.n_players, wanted)
            mask = torch.from_numpy(np.array(masks)).expand(len(pixels), -1)
        step = max(len(pixels), 1) if whole else _CHUNK
        dtype = self.network_.base.dtype
        mean, scale = (torch.tensor(v, dtype=dtype)[:, None, None] for v in (self.mean_, self.scale_))
        for start in range(0, max(len(pixels), 1), step):
            x = torch.from_numpy(np.ascontiguousarray(pixels[start : start + step].transpose(0, 3, 1, 2)))
            yield standardised(x, dtype, mean, scale), None if mask is None else mask[start : start + step]

    @contextmanager
    def _threads(self) -> Iterator[None]:
        before = torch.get_num_threads()
        if self.n_jobs is not None:
            torch.set_num_threads(count_threads(self.n_jobs))
        try:
            yield
        finally:
            torch.set_num_threads(before)


class _Standardised(nn.Module):
    """A network that takes images as they are stored."""

    def __init__(self, net: HarsanyiCNN, mean: list[float], scale: list[float], mixed: bool) -> None:
        super().__init__()
        self.net, self.mixed = net, mixed
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("scale", torch.tensor(scale)[:, None, None])
        self.mean: Tensor
        self.scale: Tensor

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """(B, C, H, W) uint8 or float -> (B, K)."""
        seen = standardised(x, self.mean.dtype, self.mean, self.scale)
        if not self.mixed:
            out: Tensor = self.net(seen, present=present)
            return out
        with torch.autocast(x.device.type, torch.bfloat16):
            units = self.net.units(seen, present)
        return self.net.read([z.to(self.mean.dtype) for z in units])
