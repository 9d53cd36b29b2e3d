"""Rounds: variants are measured in turn, so a disturbance of the machine affects every variant."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")


def interleave(variants: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Measure every variant once a round, every second round in the reverse order."""
    names = list(variants)
    results: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            results[name].append(variants[name]())
    return results


@dataclass(frozen=True, slots=True)
class Spread:
    """The summary of a series of numbers."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of at least one number."""
        return cls(statistics.median(values), min(values), max(values))


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return one ratio for each round: only numbers of the same round are compared."""
    return [above / below for above, below in zip(numerators, denominators, strict=True)]
