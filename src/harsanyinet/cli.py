"""The command line: parse, call one public function, print. Results on stdout, progress on stderr, no stack traces."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TABLE = "a table with a line of column names: .csv, .tsv (also .gz) or .parquet, or - for standard input"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit code: 0 done, 1 a certificate failed, 2 wrong input, 130 interrupted."""
    options = vars(_parser().parse_args(argv))
    run = options.pop("run")
    logging.basicConfig(format="%(message)s")
    try:
        code: int = run(**options) or 0
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone; keep Python from complaining when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, RuntimeError, ImportError, ArithmeticError, MemoryError) as error:
        if os.environ.get("HARSANYINET_TRACEBACK"):
            raise
        _say(" ".join(str(error).split()) or type(error).__name__)
        return 2


# What is parsed: an argument has the name of the parameter that it becomes -------------------------------------------


def _parser() -> argparse.ArgumentParser:
    from harsanyinet import __version__

    parser = argparse.ArgumentParser(
        prog="harsanyinet", description="Models that return exact Shapley values with every prediction."
    )
    parser.add_argument("--version", action="version", version=f"harsanyinet {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="train on Census, check by brute force, explain one person, draw plots")
    demo.add_argument("-o", "--out", type=Path, default=Path("demo"), help="folder for plots and model (default: demo)")
    demo.add_argument("--seed", type=int, default=0)
    demo.add_argument("--quick", action="store_true", help="few rows and trees, to see that it runs")
    demo.add_argument("--images", action="store_true", help="small images of digits in place of a table")
    demo.set_defaults(run=_demo)
    _add_fit(commands.add_parser("fit", help="fit a model to a table"))
    _add_streaming(commands)
    _add_score(commands.add_parser("score", help="how good a model is on rows whose target is known"))
    _add_verify(commands.add_parser("verify", help="certify a model's values on some rows by brute force"))
    _add_export(commands.add_parser("export", help="write a model as an ONNX file that predicts and explains anywhere"))
    reproduce = commands.add_parser("reproduce", help="rerun a table or figure of the paper and set ours beside it")
    add = reproduce.add_argument
    add(
        "name",
        help="table1, table2, convergence, sparsity, examples, training-cost, depth, depth-choice, image-table1, "
        "image-tau, image-stems, image-maps, receptive-fields, image-sampling-error, image-training-cost, robustness, "
        "image-sparsity, image-insertion, image-seeds, backbone, or all",
    )
    add("-o", "--out", type=Path, default=Path("results"), help="folder (default: results)")
    add("--quick", action="store_true", help="small sizes, to see that it runs")
    add("--only", action="append", default=[], metavar="FIELD=VALUE", help="run no other cells, such as dataset=yeast")
    reproduce.set_defaults(run=_reproduce)
    _add_bench(commands.add_parser("bench", help="run a benchmark and write its result file"))
    return parser


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


_COLUMNS: dict[str, Any] = {"type": _names, "action": "extend", "metavar": "COL,..."}


def _add_fit(fit: argparse.ArgumentParser) -> None:
    add = fit.add_argument
    add("data", type=Path, help=_TABLE)
    add("--target", required=True, metavar="COL", help="the column to predict; rows without it are left out")
    add("-o", "--out", type=Path, required=True, help="the model file to write, such as model.hnet")
    add(
        "--task", choices=["auto", "classification", "regression"], default="auto",
        help="auto (default): classification for text, booleans and at most 20 different whole numbers",
    )  # fmt: skip
    _add_reading(fit)
    add("--drop", **_COLUMNS, default=[], help="columns to leave out")
    ids = "columns that name the rows, such as a number of a customer; they are left out"
    add("--id", **_COLUMNS, dest="ids", default=[], help=ids)
    add("--categorical", **_COLUMNS, dest="categorical_features", help="columns whose numbers are names of something")
    add(
        "--monotone", dest="monotonic_cst", type=_sign, action="append", metavar="COL=1",
        help="the output never falls as this column grows, or with COL=-1 never rises; once for each column",
    )  # fmt: skip
    dates = 'columns of dates; "" for none (default: all that read as dates)'
    add("--dates", **_COLUMNS, dest="date_features", help=dates)
    add(
        "--group", dest="groups", type=_group, action="append", metavar="NAME=COL,...",
        help="columns that are one player, such as those of a one-hot code; once for each player",
    )  # fmt: skip
    add("--max-iter", type=int, metavar="N", help="most trees (default: 1000 to 3000)")
    add(
        "--learning-rate", type=float, metavar="R", help="share of each tree's step that is taken (default: looked for)"
    )
    add("--max-order", type=int, metavar="N", help="most columns that may act together (default: 4)")
    add("--max-seconds", type=float, metavar="S", help="a time budget: the model so far when it is over")
    add("--members", type=int, metavar="N", help="models whose outputs are averaged (default: 1)")
    add("--loss", choices=["squared", "absolute", "quantile", "poisson"], help="of a regression (default: squared)")
    add("--quantile", type=float, metavar="Q", help="for --loss quantile (default: 0.5)")
    add(
        "--seed", dest="random_state", type=int, default=0, metavar="N",
        help="the same gives the same model (default: 0)",
    )  # fmt: skip
    add("--threads", dest="n_jobs", type=int, metavar="N", help="default: one for few rows, else all cores")
    fit.set_defaults(run=_fit)


def _add_streaming(commands: Any) -> None:
    for name, run, what, help in (
        ("predict", _predict, "the predictions", "predict the rows of a table, a few at a time"),
        ("explain", _explain, "the Shapley values", "write the exact Shapley values of the rows of a table"),
    ):
        command = commands.add_parser(name, help=help)
        add = command.add_argument
        add("model", type=Path, help="a model file that fit wrote")
        add("data", type=Path, help=f"{_TABLE}; it may have more columns than the model needs")
        add("-o", "--out", type=Path, help=f"where {what} go, likewise (default, or -: CSV on stdout)")
        if name == "explain":
            add(
                "--game", choices=["missing", "marginal"], default="missing",
                help="what happens to columns outside a coalition: they are missing (default: what the data say), or "
                "averaged over the training rows (what the model does)",
            )  # fmt: skip
        ids = "columns that name the rows; they are put before the result"
        add("--id", **_COLUMNS, dest="ids", default=[], help=ids)
        _add_reading(command, "; as in fit")
        add("--chunk", type=int, default=20_000, metavar="N", help="rows at a time (default: 20000)")
        add("--threads", type=int, metavar="N", help="default: as in fit")
        command.set_defaults(run=run)


def _add_score(score: argparse.ArgumentParser) -> None:
    add = score.add_argument
    add("model", type=Path, help="a model file that fit wrote")
    add("data", type=Path, help=_TABLE)
    add("--target", required=True, metavar="COL", help="the column with the truth; rows without it are left out")
    _add_reading(score, "; as in fit")
    score.set_defaults(run=_score)


def _add_verify(verify: argparse.ArgumentParser) -> None:
    add = verify.add_argument
    add("model", type=Path, help="a model file")
    add(
        "rows", type=Path,
        help="a table as for predict; for a plain network a CSV of numbers without names, one column per input",
    )  # fmt: skip
    _add_reading(verify, "; as in fit")
    add("--max-rows", type=int, default=10, help="rows to try (default: 10)")
    add("--double", action="store_true", help="convert a network to float64 first")
    add("-o", "--out", type=Path, help="also write the certificate as JSON")
    verify.set_defaults(run=_verify)


def _add_export(export: argparse.ArgumentParser) -> None:
    add = export.add_argument
    add("model", type=Path, help="a model file")
    add("out", type=Path, help="the ONNX file to write, such as model.onnx")
    add(
        "--game", choices=["missing", "marginal", "baseline"], default="missing",
        help="what happens to columns outside a coalition, as in explain; or they are as in the row of --baseline",
    )  # fmt: skip
    add("--baseline", type=Path, metavar="TABLE", help="a table whose first row is compared with")
    add("--interactions", action="store_true", help="also those of all pairs of columns")
    add("--verify", type=Path, metavar="TABLE", help="rows to verify the model on; the file says so")
    _add_reading(export, "; as in fit")
    export.set_defaults(run=_export)


def _add_bench(bench: argparse.ArgumentParser) -> None:
    add = bench.add_argument
    add(
        "name",
        choices=["core", "exactness", "accuracy", "speed", "subsets", "large", "noise", "defaults", "further"],
        help="core: networks; exactness: Census, RMSE; accuracy, speed, subsets, large: tables beside other models, "
        "resumed where they stopped; noise: who gets the values; defaults: settings on tables kept for choosing them; "
        "further: those on tables on which nothing was chosen",
    )
    add("-o", "--out", type=Path, help="result file (default: results/bench_NAME.json)")
    add("--quick", action="store_true", help="small sizes, to see that it runs")
    add("--threads", type=int, help="threads of each model, for tables (default: 1; large: 2)")
    several = bench.add_argument_group("for accuracy, defaults and further")
    several.add_argument("--only", type=_names, metavar="DATASET,...", help="datasets (default: all)")
    several.add_argument("--models", type=_names, metavar="NAME,...", help="models, in this order (default: all)")
    defaults = bench.add_argument_group("for defaults")
    defaults.add_argument("--settings", type=json.loads, metavar="JSON", help='more candidates: {"name": {...}}')
    defaults.add_argument(
        "--no-samples", dest="samples", action="store_false", default=None, help="without samples of few rows"
    )
    bench.set_defaults(run=_bench)


def _add_reading(command: argparse.ArgumentParser, as_in_fit: str = "") -> None:
    add = command.add_argument
    missing = f"what stands for a missing value, such as '?', besides an empty cell, NA, NaN and null{as_in_fit}"
    add("--missing", **_COLUMNS | {"metavar": "TEXT,..."}, default=[], help=missing)
    tab = {"\\t": "\t", "tab": "\t"}
    between = "between two cells (default: found out)"
    add("--delimiter", type=lambda text: tab.get(text, text), metavar="C", help=between)
    add("--encoding", metavar="NAME", help="of a text file, such as latin-1 (default: utf-8)")


# What is called, and returns an exit code or nothing -----------------------------------------------------------------


def _demo(images: bool, **options: Any) -> int:
    if images:
        from harsanyinet.demos.image_demo import run_image_demo as run_demo
    else:
        from harsanyinet.demos.table_demo import run_demo

    return 0 if run_demo(say=print, **options) else 1


def _fit(**options: Any) -> None:
    from harsanyinet.batch.fit_files import fit_file

    for name in ("monotonic_cst", "groups"):
        options[name] = dict(options[name]) if options[name] else None
    print(fit_file(say=_say, **options))


def _predict(**options: Any) -> None:
    from harsanyinet.batch.runs import predict_file

    predict_file(say=_say, **options)


def _explain(**options: Any) -> None:
    from harsanyinet.batch.runs import explain_file

    explain_file(say=_say, **options)


def _score(**options: Any) -> None:
    from harsanyinet.batch.runs import score_file

    for name, value in score_file(say=_say, **options).items():
        print(f"{name:<20}{value:,.0f}" if name == "rows" else f"{name:<20}{value:.6g}")


def _verify(model: Path, rows: Path, out: Path | None, **options: Any) -> int:
    from harsanyinet import files
    from harsanyinet.batch.runs import verify_file

    if out:
        files.check_place(out, [model, rows])
    certificate = verify_file(model, rows, say=_say, **options)
    if out:
        files.write_beside(out, (certificate.to_json() + "\n").encode())
    print(certificate)
    return 0 if certificate.passed else 1


def _export(
    model: Path, out: Path, game: Any, interactions: bool, baseline: Path | None, verify: Path | None, **reading: Any
) -> None:
    from harsanyinet import files
    from harsanyinet.batch.runs import first_row, verify_file
    from harsanyinet.serving.export import export_file

    files.check_place(out, [place for place in (model, baseline, verify) if place is not None])
    row = None if baseline is None else first_row(model, baseline, **reading)
    certificate = None if verify is None else verify_file(model, verify, say=_say, **reading)
    export_file(model, out, game=game, baseline=row, interactions=interactions, certificate=certificate)
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


def _experiment(name: str) -> Any:
    """A module of the experiments, found by name: they are in a checkout and not in the wheel."""
    from importlib import import_module
    from importlib.util import find_spec

    if find_spec("harsanyinet_experiments") is None:
        raise ModuleNotFoundError(
            "bench and reproduce need the experiments, which are not part of the installed package: run them in a "
            "checkout of the source, after pip install --editable ."
        )
    return import_module(f"harsanyinet_experiments.{name}")


def _bench(name: str, out: Path | None, quick: bool, **given: Any) -> None:
    options = {option: value for option, value in given.items() if value is not None}
    n_known = {"core": 0, "exactness": 0, "accuracy": 3, "further": 3, "defaults": 5}.get(name, 1)
    if wrong := sorted(options.keys() - set(("threads", "only", "models", "settings", "samples")[:n_known])):
        flag = wrong[0].replace("samples", "no-samples")
        raise ValueError(f"--{flag} is no option of this benchmark, however: bench {name}")
    run = _experiment(f"bench_{name}").run
    print(run(out or Path("results", f"bench_{name}.json"), quick=quick, **options))


def _reproduce(name: str, out: Path, **options: Any) -> None:
    print(_experiment("reproduce").run(name, out, **options))


def _sign(text: str) -> tuple[str, int]:
    name, _, sign = text.rpartition("=")
    if sign not in ("1", "+1", "-1") or not name:
        raise argparse.ArgumentTypeError(f"expected COL=1 or COL=-1, however: {text!r}")
    return name, int(sign)


def _group(text: str) -> tuple[str, list[str]]:
    name, equal, columns = text.partition("=")
    if not (name and equal and columns):
        raise argparse.ArgumentTypeError(f"expected NAME=COL,..., however: {text!r}")
    return name, _names(columns)


def _say(text: str) -> None:
    print(f"harsanyinet: {text}", file=sys.stderr)
