"""The findings of ``anyshell doctor``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....abc import ProcessInfo

Verdict = Literal["ok", "missing", "problem", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: Its topic: ``shell``, ``program``, ``extra``, ``state``, ``path``, ``system``, ``reach``, ``mcp``; of another host,
            ``host`` for the steps to it, and ``way`` for what a person should know of them.
        name: The name of the finding.
        verdict: ``missing`` is a pity; a ``problem`` should be mended; what is ``skipped`` was not reached.
        detail: The finding.
        advice: The next step; empty without one.
        command: The command for that, to be pasted into a shell of this machine; empty where there is no one command.
    """

    topic: str
    name: str
    verdict: Verdict
    detail: str
    advice: str = ""
    command: str = ""


@dataclass(slots=True)
class Report:
    """Everything that was looked at.

    Attributes:
        usable: Whether there is a shell that commands can run in.
        findings: In the order in which a person reads them.
        orphans: Processes of commands whose anyshell has ended: killed before it could stop them, or asked to
            keep them.
    """

    usable: bool = False
    findings: list[Finding] = field(default_factory=list)
    orphans: Sequence[ProcessInfo] = ()
