"""`to_onnx`: any fitted model as one ONNX file that predicts and explains. Which graph, and what it says of itself."""

from __future__ import annotations

import json
from typing import Any

from harsanyinet import __version__, files, loading
from harsanyinet.explanations.certificate import Certificate, verify
from harsanyinet.files import Place
from harsanyinet.tables.estimators import HarsanyiClassifier, HarsanyiRegressor
from harsanyinet.tables.tree_games import GameName

_NETWORKS = ("HarsanyiMLP", "HarsanyiCNN", "HarsanyiImageClassifier")
_OUTSIDE = {
    "missing": "absent: brute force over the input `present` gives the same",
    "marginal": "averaged over all training rows",
    "baseline": "as in the reference row",
}


def to_onnx(
    model: Any,
    path: Place,
    *,
    game: GameName = "missing",
    baseline: Any = None,
    interactions: bool = False,
    rows: Any = None,
    certificate: Certificate | None = None,
) -> None:
    """Writes a model to an ONNX file, which runs wherever onnxruntime does, without this package.

    The file takes the raw columns of a table, one input each (numbers as doubles, NaN where missing; categories as
    text, empty where missing; the parts of dates as numbers), or the images or rows of a network as `x`; and, if given,
    `present`, (rows, players) bool. It returns `label` and `probabilities`, or `prediction`; `raw`, the output that the
    values are exact for; `shapley`, (rows, players[, outputs]); and `base_values`.

    Args:
        model: A fitted estimator or a network.
        path: The file; an existing one is replaced, never by half a file.
        game: Of a table: what happens to columns outside a coalition, as in `explain`.
        baseline: The row to compare with, for the baseline game.
        interactions: Whether the file also returns `interactions`, those of all pairs (SII), (rows, pairs[, outputs]);
            its metadata name the pairs.
        rows: Rows to verify the model on; the file carries the certificate.
        certificate: One that is there already.

    Raises:
        TypeError: The model is of another kind, or a part of it is.
        ValueError: The model cannot be exported, or the game does not fit it.
        ImportError: There is no onnx.
    """
    files.check_place(path)
    if rows is not None:
        certificate = verify(model, rows, progress=False)
    if certificate is not None and not certificate.passed:
        raise ValueError(f"a file carries a certificate that was passed, however: {str(certificate).splitlines()[0]}")
    if isinstance(model, HarsanyiClassifier | HarsanyiRegressor):
        from harsanyinet.serving.table_graphs import table_graph

        graph, about = table_graph(model, model.tree_game(game, baseline), interactions=interactions)
    elif any(kind.__name__ in _NETWORKS and kind.__module__.startswith("harsanyinet") for kind in type(model).__mro__):
        if game != "missing" or baseline is not None:
            raise ValueError(f"a network plays one game, in which players are absent, however: game={game!r}")
        from harsanyinet.serving.network_graphs import network_graph

        graph, about = network_graph(model, interactions=interactions)
    else:
        raise TypeError(
            f"model must be one of HarsanyiClassifier, HarsanyiRegressor, {', '.join(_NETWORKS)}, however: "
            f"{type(model).__name__}"
        )
    kind = type(model).__name__
    about |= {
        "model": kind,
        "harsanyinet": __version__,
        "game": game,
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "certificate": "Not verified on rows. By construction the values are exact for the raw output when players "
        f"outside a coalition are {_OUTSIDE[game]}."
        if certificate is None
        else json.loads(certificate.to_json()),
        "sha256": _fingerprint(model),
    }
    text = f"Predictions and exact Shapley values of {kind}, made by harsanyinet {__version__}."
    files.write_beside(path, graph.to_bytes(text, about))


def export_file(model: Place, path: Place, **options: Any) -> None:
    """Writes a model file as an ONNX file; options as for `to_onnx`."""
    to_onnx(loading.load(model), path, **options)


def _fingerprint(model: Any) -> str:
    """The SHA-256 that the model's own file carries; of a network that no file can hold, that of its weights."""
    if getattr(model, "unstorable", None) is None:
        return files.fingerprint(type(model).__name__, *model.to_arrays())
    state = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
    return files.fingerprint(type(model).__name__, state, {})
