"""The grouping of the results of many hosts: hosts with the same ending and the same output form a group."""

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
    """Hosts with the same ending and the same output.

    Attributes:
        how: The ending of the first host in a few words, with details such as an address.
        cause: The ending of all hosts in a few words, without host names and addresses.
        ok: Whether the ending is a success.
        text: The output of the first host; empty if outputs are not shown.
        hosts: The names of the hosts.
    """

    how: str
    cause: str
    ok: bool
    text: str
    hosts: list[str] = field(default_factory=list)

    @property
    def head(self) -> str:
        """The names of the hosts, and the ending of the hosts."""
        count = f" ({len(self.hosts)} hosts)" if len(self.hosts) > 2 else ""
        how = self.how if len(self.hosts) == 1 else self.cause
        return f"{', '.join(map(printable, self.hosts))}{count}: {how}"


class Folding:
    """The groups of the outcomes so far. Each group holds one output, if outputs are shown.

    Args:
        hosts: The names of all hosts, in the order of display.
        timeout: The timeout of the command, for descriptions.
        shows_output: Whether a group holds its output.
    """

    def __init__(self, hosts: Sequence[str], *, timeout: float | None, shows_output: bool) -> None:
        self._places = {host: place for place, host in enumerate(hosts)}
        self._timeout = timeout
        self._shows_output = shows_output
        self._groups: dict[tuple[str, bytes], HostGroup] = {}
        self.counts = dict.fromkeys(_STATES, 0)
        """The number of hosts in each state."""

    def add(self, result: HostOutcome, digest: bytes) -> None:
        """Add the outcome of one host, and the digest of the host's output."""
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
        """Whether any host has failed, or was not started."""
        return self.counts["failed"] + self.counts["not_started"] > 0

    def groups(self) -> list[HostGroup]:
        """Return the groups: successes first, failures last, near the prompt; larger groups before smaller groups."""
        for group in self._groups.values():
            group.hosts.sort(key=self._places.__getitem__)
        return sorted(self._groups.values(), key=lambda group: (not group.ok, -len(group.hosts)))

    def total(self, took: float) -> str:
        """Return a summary of all hosts in one line."""
        counts = self.counts
        parts = [f"{counts['done']} done"]
        if counts["failed"]:
            parts.append(f"{counts['failed']} failed")
        if counts["not_started"]:
            parts.append(f"{counts['not_started']} not started")
        count = sum(counts.values())
        return f"{count} {'host' if count == 1 else 'hosts'}: {', '.join(parts)}; {took:.1f} s"


def describe(result: HostOutcome, timeout: float | None, *, named: bool = True) -> str:
    """Return the ending of the command on one host, in a few words that follow the name of the host.

    Args:
        result: The outcome of the host.
        timeout: The timeout of the command.
        named: Whether to include addresses; without addresses, hosts that failed for the same cause are described alike.
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
        # Without pids, which differ between hosts: hosts on which the same programs were stopped form one group.
        stopped = {printable(process.name): None for process in outcome.left_behind if not process.alive}
        if stopped and outcome.status == "exited":
            said.append(f"left behind, and stopped: {', '.join(sorted(stopped))}")
    return "; ".join(said)


def _failed(error: Exception, host: str, *, named: bool) -> str:
    """Return the failure without the host's name, with which the line begins anyway."""
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
