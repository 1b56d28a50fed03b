"""The command line: parse, call one public function, print. Results on stdout, progress on stderr, no stack traces."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit code: 0 done, 1 a certificate failed, 2 wrong input, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(format="%(message)s")
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone; keep Python from complaining when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, RuntimeError, ImportError, ArithmeticError) as error:
        if os.environ.get("HARSANYINET_TRACEBACK"):
            raise
        print(f"harsanyinet: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    from harsanyinet import __version__

    parser = argparse.ArgumentParser(
        prog="harsanyinet", description="Networks that return exact Shapley values with every prediction."
    )
    parser.add_argument("--version", action="version", version=f"harsanyinet {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="train on Census, check by brute force, explain one person, draw plots")
    demo.add_argument("-o", "--out", type=Path, default=Path("demo"), help="folder for plots and model (default: demo)")
    demo.add_argument("--seed", type=int, default=0)
    demo.add_argument("--quick", action="store_true", help="few rows and epochs, to see that it runs")
    demo.set_defaults(run=_demo)

    verify = commands.add_parser("verify", help="certify a model's values on some rows by brute force")
    verify.add_argument("model", type=Path, help="a model file")
    verify.add_argument("rows", type=Path, help="CSV of numbers without a header, one column per input; empty is NaN")
    verify.add_argument("--max-rows", type=int, default=10, help="rows to try (default: 10)")
    verify.add_argument("--double", action="store_true", help="convert model and rows to float64 first")
    verify.add_argument("-o", "--out", type=Path, help="also write the certificate as JSON")
    verify.set_defaults(run=_verify)

    bench = commands.add_parser("bench", help="run a benchmark and write its result file")
    bench.add_argument(
        "name",
        choices=["core", "exactness", "accuracy"],
        help="core: speed and memory; exactness: Census, RMSE; accuracy: beside other models, resumed where it stopped",
    )
    bench.add_argument("-o", "--out", type=Path, help="result file (default: results/bench_NAME.json)")
    bench.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    accuracy = bench.add_argument_group("for accuracy")
    accuracy.add_argument("--only", type=_names, metavar="DATASET,...", help="datasets (default: all)")
    accuracy.add_argument("--models", type=_names, metavar="NAME,...", help="models, in this order (default: all)")
    accuracy.add_argument("--threads", type=int, help="threads of each model (default: 1)")
    bench.set_defaults(run=_bench)
    return parser


def _demo(arguments: argparse.Namespace) -> int:
    from harsanyinet.experiments.demo import run_demo

    return 0 if run_demo(arguments.out, say=print, seed=arguments.seed, quick=arguments.quick)["passed"] else 1


def _verify(arguments: argparse.Namespace) -> int:
    import torch

    from harsanyinet import files, load, verify
    from harsanyinet.datasets import read_rows

    net = load(arguments.model)
    rows = torch.from_numpy(read_rows(arguments.rows, net.n_features)).to(net.baseline.dtype)
    if arguments.double:
        net, rows = net.double(), rows.double()
    certificate = verify(net, rows, max_rows=arguments.max_rows)
    if arguments.out:
        files.write_beside(arguments.out, (certificate.to_json() + "\n").encode())
    print(certificate)
    return 0 if certificate.passed else 1


def _bench(arguments: argparse.Namespace) -> int:
    from importlib import import_module

    given = {name: getattr(arguments, name) for name in ("only", "models", "threads")}
    options = {name: value for name, value in given.items() if value is not None}
    if options and arguments.name != "accuracy":
        raise ValueError(f"--{next(iter(options))} is an option of bench accuracy, however: bench {arguments.name}")
    run = import_module(f"harsanyinet.experiments.bench_{arguments.name}").run
    print(run(arguments.out or Path("results", f"bench_{arguments.name}.json"), quick=arguments.quick, **options))
    return 0


def _names(text: str) -> list[str]:
    return text.split(",")
