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
    """The result of one check.

    Attributes:
        topic: The topic: ``shell``, ``program``, ``extra``, ``state``, ``path``, ``system``, ``reach`` or ``mcp``; for another
            host also ``host`` for the steps of the connection, and ``way`` for the notices about the connection.
        name: The name of the finding.
        verdict: ``ok``; ``missing`` for an optional part; ``problem`` for a fault; ``skipped`` for a step that was not reached.
        detail: The finding in words.
        advice: The next step; empty without a next step.
        command: The command for the next step, to paste into a shell of this machine; empty without a single such command.
    """

    topic: str
    name: str
    verdict: Verdict
    detail: str
    advice: str = ""
    command: str = ""


@dataclass(slots=True)
class Report:
    """The findings of one run of ``anyshell doctor``.

    Attributes:
        usable: Whether there is a shell that commands can run in.
        findings: The findings, in the order for a reader.
        orphans: Processes of commands whose anyshell has ended: killed before it could stop them, or asked to
            keep them.
    """

    usable: bool = False
    findings: list[Finding] = field(default_factory=list)
    orphans: Sequence[ProcessInfo] = ()
