"""The part of real logs that a bounded output still shows: ``python -m bench.logs``.

The corpus is `tests/data/logs/`: logs of real tools. The *signals* of a log are texts that tell a reader the cause of a
failure. The *facts* are texts that a reader needs in order to act. A text counts as shown if the bounded output contains
exactly the same characters.
"""

from __future__ import annotations

import itertools
import lzma
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from anyshell import OutputLimits
from anyshell.output.text.builder import OutputBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

CORPUS = Path(__file__).parents[1] / "tests" / "data" / "logs"

BUDGETS = (8 * 1024, 50 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log of the corpus.

    Attributes:
        name: The name of the log's file, without suffixes.
        tool: The program that printed the log.
        command: The command that was run, in a POSIX shell.
        exit_code: The exit code of the command.
        failure: Whether the command failed.
        held_out: Whether the log is only for measurements: nothing may be tuned on the log.
        cause: The signals; empty where the command succeeded.
        facts: The facts.
        data: The output of the command.
    """

    name: str
    tool: str
    command: str
    exit_code: int
    failure: bool
    held_out: bool
    cause: tuple[str, ...]
    facts: tuple[str, ...]
    data: bytes


@cache
def load() -> Sequence[Log]:
    """Return the corpus, in the order of `facts.toml`; the files are read only once."""
    return [
        Log(
            name=name,
            tool=entry["tool"],
            command=entry["command"],
            exit_code=entry["exit_code"],
            failure=entry["kind"] == "failure",
            held_out=entry["held_out"],
            cause=tuple(entry.get("cause", ())),
            facts=tuple(entry.get("facts", ())),
            data=lzma.decompress((CORPUS / f"{name}.log.xz").read_bytes()),
        )
        for name, entry in tomllib.loads((CORPUS / "facts.toml").read_text(encoding="utf-8")).items()
    ]


def shown(data: bytes, budget: int) -> str:
    """Return the text that anyshell shows of an output."""
    return _bounded(data, OutputLimits(budget=budget))


def _bounded(data: bytes, limits: OutputLimits) -> str:
    builder = OutputBuilder(**limits.parts._asdict())
    builder.feed(data)
    return builder.finish().text


WAYS: Mapping[str, Callable[[bytes, int], str]] = {
    "head 40 % + tail 60 %": lambda data, budget: _bounded(
        data, OutputLimits(head=int(0.4 * budget), tail=int(0.6 * budget))
    ),
    "tail alone": lambda data, budget: _bounded(data, OutputLimits(head=0, tail=budget)),
    "anyshell": shown,
}


@dataclass(slots=True)
class Shares:
    """The shown texts of some logs: whether any signal of each failure, each signal and each fact is shown."""

    cases: list[bool]
    signals: list[bool]
    facts: list[bool]
    facts_of_successes: list[bool]

    def cells(self) -> list[str]:
        """Return each share in percent, with the numbers of shown and of all texts."""
        return [
            f"{sum(each) / max(1, len(each)):.0%} ({sum(each)}/{len(each)})"
            for each in (self.cases, self.signals, self.facts, self.facts_of_successes)
        ]


def measure(logs: Iterable[Log], way: Callable[[bytes, int], str], budget: int) -> Shares:
    """Bound each log, and search the bounded text for the signals and facts of the log."""
    shares = Shares([], [], [], [])
    for log in logs:
        text = way(log.data, budget)
        facts = [fact in text for fact in log.facts]
        if log.failure:
            signals = [signal in text for signal in log.cause]
            shares.cases.append(any(signals))
            shares.signals += signals
            shares.facts += facts
        else:
            shares.facts_of_successes += facts
    return shares


def table(logs: Collection[Log], *, longer: bool = False) -> str:
    """Return a Markdown table with a row for each budget, half of the corpus and way to bound.

    Args:
        logs: The logs to measure.
        longer: Leave out the logs that fit the budget, which every way shows whole.
    """
    heading = ["budget", "half", "way", "failures with a signal", "signals", "facts", "facts of successes"]
    rows = [heading, ["---"] * len(heading)]
    for budget, held_out in itertools.product(BUDGETS, (False, True)):
        measured = [
            log for log in logs if log.held_out == held_out and (len(log.data) > budget or not longer)
        ]
        for name, way in WAYS.items():
            half = "held out" if held_out else "tuned"
            rows.append([f"{budget // 1024} KiB", half, name, *measure(measured, way, budget).cells()])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def signals(logs: Collection[Log]) -> str:
    """Return a Markdown table of the failures with a shown signal, with a column for each way to bound."""
    rows = [["budget", "failures", *WAYS], ["---"] * (2 + len(WAYS))]
    for budget, held_out in itertools.product(BUDGETS, (False, True)):
        failures = [log for log in logs if log.failure and log.held_out == held_out]
        shown_by = [measure(failures, way, budget).cases for way in WAYS.values()]
        long = [len(log.data) > budget for log in failures]
        half = "held out" if held_out else "tuned"
        for what, counted in ((f"{half}, longer than the budget", long), (half, [True] * len(long))):
            some = [list(itertools.compress(cases, counted)) for cases in shown_by]
            cells = [f"{sum(each) / max(1, len(each)):.0%} ({sum(each)} of {len(each)})" for each in some]
            rows.append([f"{budget // 1024} KiB", what, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    corpus = load()
    print(f"All {len(corpus)} logs:", table(corpus), sep="\n\n")
    print("\nThose longer than the budget:", table(corpus, longer=True), sep="\n\n")
    print("\nFailures with a signal:", signals(corpus), sep="\n\n")
