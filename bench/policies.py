"""The cost of a policy: to parse a text, to decide on the text, and to import the policy."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from anyshell import Policy
from anyshell.policy.parse import parse
from anyshell.policy.rules import LocalFacts

from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .startup import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sizes import Sizes

ROUNDS = 15

_IMPORT = "import anyshell.policy, anyshell.policy.rules, anyshell.policy.parse.commands"
_ADDED = f"""
import anyshell, time
anyshell.run("true")
began = time.process_time()
{_IMPORT}
print((time.process_time() - began) * 1000)
"""

TYPICAL = (
    "git status --short",
    "ls -la src | head -20",
    "cd build && cmake .. -DCMAKE_BUILD_TYPE=Release 2>&1 | tail -5",
    "grep -rn 'def main' --include='*.py' src tests | sort | uniq -c | sort -rn | head -3",
    'for f in src/*.c; do gcc -c "$f" -o "build/${f%.c}.o" || echo "failed: $f" >> errors.txt; done',
)
"""Typical command lines of an agent."""

WORST = {
    "substitutions in substitutions": "$(" * 5000 + ")" * 5000,
    "pipes": "a|" * 16_000 + "a",
    "operators without commands": ")(&|;<" * 5000,
    "quotes": "'\"" * 16_000,
    "here-documents": "cat <<A\n" * 4000,
    "braces": "${x:-" * 6000,
    "words": "echo " + "a " * 16_000,
    "brackets": "[[ " * 10_000,
    "functions": "f() { " * 5000,
    "cases": "case x in a) " * 2400,
    "patterns": "rm " + " ".join(f"a{at}*/[b-c]?" for at in range(500)),
    "files": "rm " + " ".join(f"src/a{at}.c" for at in range(500)),
    "commands": "rm a b; " * 4000,
}
"""Texts within the size limit that take the longest time in the parser or in the rules."""


def measure(sizes: Sizes, rounds: int) -> Result:
    """Measure typical lines, the worst texts, and imports."""
    policy, facts = Policy.preset("workspace"), LocalFacts()

    def decide(text: str) -> object:
        return policy.decide(text, cwd="/tmp", facts=facts)

    def each(call: Callable[[str], object]) -> float:
        began = time.perf_counter()
        for text in TYPICAL:
            call(text)
        return (time.perf_counter() - began) / len(TYPICAL) * 1000

    def one(call: Callable[[str], object], text: str) -> float:
        began = time.perf_counter()
        call(text)
        return (time.perf_counter() - began) * 1000

    def importing(what: str) -> float:
        return milliseconds((sys.executable, "-c", what))

    def added() -> float:
        """Return the least of three measurements: other work on the machine only adds time."""
        command = (sys.executable, "-c", _ADDED)
        ran = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(3)]
        return min(float(each.stdout) for each in ran)

    each(decide)  # loads the grammar and the rules
    importing(_IMPORT)  # compiles the modules that are not compiled yet
    parse_name, decide_name = "parse", "decide"
    variants: dict[str, Callable[[], float]] = {
        parse_name: partial(each, parse_bash),
        decide_name: partial(each, decide),
        "asyncio": partial(importing, "import asyncio"),
        "alone": partial(importing, _IMPORT),
        "added": added,
        **{f"parse {name}": partial(one, parse_bash, text) for name, text in WORST.items()},
        **{f"decide {name}": partial(one, decide, text) for name, text in WORST.items()},
    }
    found = interleave(variants, rounds)
    worst, slowest = (
        max(WORST, key=lambda name: max(found[f"{what} {name}"])) for what in (parse_name, decide_name)
    )
    return Result(
        rows=[
            Row(what="parse a typical line", unit="ms", ours=found[parse_name], reach=Reach("<=", 0.3)),
            Row(what="decide on it, under `workspace`", unit="ms", ours=found[decide_name]),
            Row(
                what=f"parse the worst of {len(WORST)} texts of 32 KiB: {worst}",
                unit="ms",
                ours=found[f"parse {worst}"],
                reach=Reach("<=", 20),
            ),
            Row(
                what=f"decide on the worst of them, under `workspace`: {slowest}",
                unit="ms",
                ours=found[f"decide {slowest}"],
                reach=Reach("<=", 20),
            ),
            Row(
                what="import of the policy in a program that has run a command by anyshell, processor time",
                unit="ms",
                ours=found["added"],
                reach=Reach("<=", 30),
            ),
            Row(
                what="a process that imports the policy alone, beside one that imports asyncio alone",
                unit="ms",
                ours=found["alone"],
                floor=found["asyncio"],
                ratios=ratios(found["alone"], found["asyncio"]),
            ),
        ],
        notes=[f"per line, of {len(TYPICAL)} lines; the questions to the host are answered by this machine."],
    )


def parse_bash(text: str) -> object:
    """Parse a text for bash."""
    return parse(text, "bash")
