"""``python -m bench``: measure, print the table, write JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .report import Report
from .sizes import FULL, QUICK, Sizes
from .suite import BENCHMARKS

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program. Return 1 if a benchmark could not run; the measured speeds do not change the result."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure anyshell beside its floors, in rounds that are interleaved in one run.",
        epilog="A number is worth something only on a machine that does nothing else meanwhile.",
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(BENCHMARKS), metavar="NAME", help=f"of {', '.join(BENCHMARKS)}"
    )
    parser.add_argument("--rounds", type=_count, metavar="N", help="for every benchmark, instead of its own")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write everything there, each round too"
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds, to try it out")
    options = parser.parse_args(arguments)
    # An installed package is compiled. With this variable each process would compile the package again, and an import would take
    # longer than for a user.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

    names = [name for name in BENCHMARKS if options.only is None or name in options.only]
    report = measure(names, QUICK if options.quick else FULL, options.rounds)
    if options.json is not None:
        options.json.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    print(report.table())
    return 1 if report.failures else 0


def measure(names: Sequence[str], sizes: Sizes, rounds: int | None = None) -> Report:
    """Run benchmarks one after the other. A failed benchmark is recorded, and the others still run."""
    report = Report(sizes)
    for name in names:
        benchmark = BENCHMARKS[name]
        count = rounds or min(benchmark.rounds, sizes.rounds)
        print(f"{name}: {count} rounds ...", file=sys.stderr, flush=True)
        try:
            report.results[name] = benchmark.measure(sizes, count)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is said, and the rest is measured
            report.failures[name] = f"{type(error).__name__}: {error}"
    return report


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds: use 1 or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
