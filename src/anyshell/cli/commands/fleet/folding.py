"""The results of many hosts, with those folded together that ended alike and printed the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...._exceptions import HostKeyUntrusted
from ...printing import printable, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .... import Outcome
    from ....types import HostOutcome

_STATES = ("done", "failed", "not_started")


@dataclass(slots=True)
class HostGroup:
    """Hosts that ended alike and printed the same.

    Attributes:
        how: Their end, in a few words; of one host, with what tells it from others.
        cause: The same, without what names a host or an address.
        ok: Whether that is what was wanted.
        text: Their output, as the first of them has it; empty where it is not to be shown.
        hosts: Their names.
    """

    how: str
    cause: str
    ok: bool
    text: str
    hosts: list[str] = field(default_factory=list)

    @property
    def head(self) -> str:
        """Their names, and how they ended."""
        count = f" ({len(self.hosts)} hosts)" if len(self.hosts) > 2 else ""
        how = self.how if len(self.hosts) == 1 else self.cause
        return f"{', '.join(map(printable, self.hosts))}{count}: {how}"


class Folding:
    """Takes outcomes one by one. Held is one text for each different one, as far as texts are to be shown.

    Args:
        hosts: The names of all hosts, in the order in which they are to be named.
        timeout: The commands' timeout, for the words.
        shows_output: Whether a group has its text.
    """

    def __init__(self, hosts: Sequence[str], *, timeout: float | None, shows_output: bool) -> None:
        self._places = {host: place for place, host in enumerate(hosts)}
        self._timeout = timeout
        self._shows_output = shows_output
        self._groups: dict[tuple[str, bytes], HostGroup] = {}
        self.counts = dict.fromkeys(_STATES, 0)
        """The number of hosts in each state."""

    def add(self, result: HostOutcome, digest: bytes) -> None:
        """Take what became of one host, and what tells its output from others."""
        self.counts[result.state] += 1
        how, cause = describe(result, self._timeout), describe(result, self._timeout, named=False)
        outcome = result.outcome
        group = self._groups.get((cause, digest))
        if group is None:
            shown = outcome is not None and self._shows_output
            text = outcome.output.text if outcome is not None and shown else ""
            group = self._groups[cause, digest] = HostGroup(how, cause, result.ok, text)
        group.hosts.append(result.host)

    @property
    def failed(self) -> bool:
        """Whether any host did not do what was wanted, or was not asked to."""
        return self.counts["failed"] + self.counts["not_started"] > 0

    def groups(self) -> list[HostGroup]:
        """Successes first, the largest group before the others; failures stand last, near the prompt."""
        for group in self._groups.values():
            group.hosts.sort(key=self._places.__getitem__)
        return sorted(self._groups.values(), key=lambda group: (not group.ok, -len(group.hosts)))

    def total(self, took: float) -> str:
        """All of it in one line."""
        counts = self.counts
        parts = [f"{counts['done']} done"]
        if counts["failed"]:
            parts.append(f"{counts['failed']} failed")
        if counts["not_started"]:
            parts.append(f"{counts['not_started']} not started")
        count = sum(counts.values())
        return f"{count} {'host' if count == 1 else 'hosts'}: {', '.join(parts)}; {took:.1f} s"


def describe(result: HostOutcome, timeout: float | None, *, named: bool = True) -> str:
    """The end of the command on one host, in a few words for people, which follow the name of the host.

    Args:
        result: Its outcome.
        timeout: The timeout of the command.
        named: Whether an address is told; without, hosts that failed for one cause are described alike.
    """
    if result.state == "not_started":
        return "not started"
    said = [] if result.outcome is None else [_ended(result.outcome, timeout)]
    if result.error is not None:
        said.append(printable(_failed(result.error, result.host, named=named)) or type(result.error).__name__)
    outcome = result.outcome
    if outcome is not None and outcome.left_behind:
        alive = ", ".join(
            f"{printable(process.name)} (pid {process.pid})" if process.pid else printable(process.name)
            for process in outcome.left_behind
            if process.alive
        )
        if alive:
            said.append(f"may still run there: {alive}" if outcome.status != "exited" else f"left: {alive}")
        # Without their pids, which are others on each host: those where the same was stopped are one group.
        stopped = {printable(process.name): None for process in outcome.left_behind if not process.alive}
        if stopped and outcome.status == "exited":
            said.append(f"left behind, and stopped: {', '.join(sorted(stopped))}")
    return "; ".join(said)


def _failed(error: Exception, host: str, *, named: bool) -> str:
    """The failure, without the host's name, with which the line begins."""
    if isinstance(error, HostKeyUntrusted):
        what = "its key has changed" if error.changed else "its key is not trusted"
        shown = f" ({error.key_type} {error.fingerprint})" if named else ""
        return f"{what}{shown}; 'anyshell doctor --host {host if named else 'HOST'}' says what to do"
    name = re.escape(host.partition("://")[2].partition("/")[0].rpartition("@")[2] or host.rpartition("@")[2])
    text = " ".join(str(error).split())
    text = re.sub(rf" at {name} \(([^)]*)\)", r" at \1", text)
    text = re.sub(rf"^(?:'{name}' has |{name}: )| at {name}(?![\w.])(?! port)", "", text)
    if not named:
        text = re.sub(r"^'[^']*' has | at \S+ port \d+", "", text)
    return text


def _ended(outcome: Outcome, timeout: float | None) -> str:
    if outcome.status == "timed_out" and outcome.silence is not None:
        return f"silent for {seconds(outcome.silence)}, and stopped"
    if outcome.status == "timed_out":
        return "timed out" if timeout is None else f"timed out after {seconds(timeout)}"
    if outcome.status == "cancelled":
        return "stopped before it was started" if outcome.started is False else "stopped"
    if outcome.status == "lost" and outcome.started is None:
        return "lost: it may have run"
    if outcome.status != "exited":
        return "lost: how it ended, or that it did, could not be learnt"
    if outcome.signal is not None:
        return f"ended by {outcome.signal}"
    return f"exit code {outcome.exit_code}"
