"""Rows of numbers, as a table and as JSON."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import psutil

from .rounds import Spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .sizes import Sizes

Unit = Literal["ms", "s", "MB/s", "MiB", "KiB", "processes"]

_DIGITS: Mapping[Unit, int] = {"ms": 2, "s": 3, "MB/s": 0, "MiB": 1, "KiB": 0, "processes": 0}

_HEADINGS = ("what", "ours", "floor", "ratio (min-max)", "reach", "holds")


@dataclass(frozen=True, slots=True)
class Reach:
    """The aim of a row: a number that the row must not exceed, or must reach.

    Attributes:
        relation: The required relation of the measured number to the bound.
        bound: For a row with ratios, a ratio: the median of the ratios is judged. For another row, a number in
            the row's unit: the worst round is judged, since a bound must hold in every round.
    """

    relation: Literal["<=", ">="]
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        what: The name of the measurement.
        unit: The unit of `ours` and `floor`.
        ours: One number of anyshell for each round.
        floor: One number of the floor for each round; empty without a floor.
        ratios: The ratio of `ours` to `floor` for each round; empty if the row compares nothing.
        reach: The aim; ``None`` for a row without an aim.
    """

    what: str
    unit: Unit
    ours: Sequence[float]
    floor: Sequence[float] = ()
    ratios: Sequence[float] = ()
    reach: Reach | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the row meets its aim; ``None`` without an aim."""
        if self.reach is None:
            return None
        spread = Spread.of(self.ratios or self.ours)
        if self.reach.relation == "<=":
            return (spread.median if self.ratios else spread.high) <= self.reach.bound
        return (spread.median if self.ratios else spread.low) >= self.reach.bound

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the table's columns."""
        ours, ratio = Spread.of(self.ours), ""
        shown = self._number(ours.median)
        if self.ratios:
            spread = Spread.of(self.ratios)
            ratio = f"{spread.median:.2f} ({spread.low:.2f}-{spread.high:.2f})"
        elif ours.low != ours.high:
            shown += f" ({self._number(ours.low, bare=True)} to {self._number(ours.high, bare=True)})"
        floor = self._number(Spread.of(self.floor).median) if self.floor else ""
        holds = {True: "yes", False: "no", None: ""}[self.holds]
        return (self.what, shown, floor, ratio, self._reach(), holds)

    def as_json(self) -> dict[str, Any]:
        """Return the row as data for JSON, with the numbers of each round."""
        reach = self.reach
        return {
            "what": self.what,
            "unit": self.unit,
            "ours": _series(self.ours),
            "floor": _series(self.floor),
            "ratio": _series(self.ratios),
            "reach": None if reach is None else {"relation": reach.relation, "bound": reach.bound},
            "holds": self.holds,
        }

    def _number(self, value: float, *, bare: bool = False) -> str:
        return f"{value:.{_DIGITS[self.unit]}f}" + ("" if bare else f" {self.unit}")

    def _reach(self) -> str:
        if self.reach is None:
            return ""
        return f"{self.reach.relation} {self.reach.bound:g}" + ("" if self.ratios else f" {self.unit}")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one benchmark.

    Attributes:
        rows: The benchmark's lines of the table.
        notes: Facts about the measurement that a reader must know.
    """

    rows: Sequence[Row]
    notes: Sequence[str] = ()


@dataclass(slots=True)
class Report:
    """The results and failures of a whole run, each by the name of its benchmark."""

    sizes: Sizes
    results: dict[str, Result] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def table(self) -> str:
        """Return the table, followed by the notes and the failures."""
        rows = [row.cells() for result in self.results.values() for row in result.rows]
        widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
        lines = [_line(_HEADINGS, widths), _line(["-" * width for width in widths], widths)]
        lines += [_line(row, widths) for row in rows]
        lines.append("")
        lines += [f"{name}: {note}" for name, result in self.results.items() for note in result.notes]
        lines.append(
            "A ratio is the median of one a round; a row without ratios is judged by its worst round."
        )
        if self.sizes.name != "full":
            lines.append(
                f"The sizes are the {self.sizes.name} ones; the reaches are meant for the full ones."
            )
        lines += [f"FAILED {name}: {reason}" for name, reason in self.failures.items()]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the report as data for JSON, with facts about the machine."""
        return {
            "anyshell": version("anyshell"),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "load": psutil.getloadavg(),
            "sizes": self.sizes.name,
            "benchmarks": {
                name: {"notes": list(result.notes), "rows": [row.as_json() for row in result.rows]}
                for name, result in self.results.items()
            },
            "failures": self.failures,
        }


def _series(values: Sequence[float]) -> dict[str, Any] | None:
    if not values:
        return None
    spread = Spread.of(values)
    return {"median": spread.median, "min": spread.low, "max": spread.high, "rounds": list(values)}


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
