"""The savings of the minimizer on the corpus of real logs: ``python -m bench.minimized``.

Only the log of a simple command that a rule is about can be minimized. The number of tokens is a quarter of the bytes of
the whole, unbounded text. A fact counts as kept if the shown text contains exactly the same characters. A text with
grouped lines is searched in the form that `ungrouped` returns.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from anyshell import OutputLimits
from anyshell.output import OutputBuilder
from anyshell.output.minimize import INDENT, find, minimize, packaged
from anyshell.tool.minimizing import simple_command

from .logs import load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anyshell.output.minimize import Minimized, NoiseRule

    from .logs import Log


def minimized(log: Log) -> tuple[NoiseRule | None, str, Minimized | None]:
    """Return the rule about a log, the log's text, and the minimized text; ``None`` for a missing rule or minimized text."""
    builder = OutputBuilder(head=12 * 1024 * 1024, tail=0)
    builder.feed(log.data)
    text = builder.finish().text
    words = simple_command(log.command, "bash")
    rule = None if words is None else find(packaged(), words)
    return rule, text, minimize(rule, log.exit_code, text, room=OutputLimits().size) if rule else None


def ungrouped(text: str) -> str:
    """Return the lines that a grouped text stands for: the heading of a group is put before each indented line."""
    lines, heading = [], ""
    after = text.split("\n")
    for line, following in zip(after, [*after[1:], ""], strict=True):
        if line.startswith(INDENT):
            lines.append(heading + line.removeprefix(INDENT))
        elif following.startswith(INDENT):
            heading = line
        else:
            lines.append(line)
    return "\n".join(lines)


def missing(log: Log, text: str) -> list[str]:
    """Return the signals and facts of a log that are not in a text."""
    return [each for each in (*log.cause, *log.facts) if each not in text]


def table(logs: Iterable[Log]) -> str:
    """Return a Markdown table with a row for each rule, after success and after failure."""
    found: dict[tuple[str, str], list[tuple[int, int, bool]]] = defaultdict(list)
    facts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for log in logs:
        rule, text, left = minimized(log)
        shown = text if left is None else left.text
        whole = ungrouped(shown) if left is not None and left.grouped else shown
        key = (rule.name if rule else "(no rule, or not a simple command)", "red" if log.failure else "green")
        for each in (key, ("all with a rule" if rule else "all without", key[1])):
            found[each].append((len(text.encode()), len(shown.encode()), text != shown))
            facts[each][1] += len(log.cause) + len(log.facts)
            facts[each][0] += len(log.cause) + len(log.facts) - len(missing(log, whole))
    rows = [
        "| rule | exit | logs | minimized | tokens before | after | saved | facts kept |",
        "|" + "---|" * 8,
    ]
    for (name, kind), sizes in sorted(found.items()):
        before, after = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
        kept, all_facts = facts[name, kind]
        rows.append(
            f"| {name} | {kind} | {len(sizes)} | {sum(size[2] for size in sizes)} | {before // 4:,} | {after // 4:,} "
            f"| {1 - after / max(1, before):.0%} | {kept}/{all_facts} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(load()))
