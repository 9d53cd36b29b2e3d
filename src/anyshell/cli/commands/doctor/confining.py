"""Checks of the means of a host to confine commands: the topic ``reach`` of ``anyshell doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .report import Finding

if TYPE_CHECKING:
    from ....abc import Backend

_PARTS = {"user": "user namespaces", "net": "network namespaces", "proc": "a /proc of its own"}


async def look_at_reach(backend: Backend, system: str, *, here: bool = True) -> list[Finding]:
    """Return which parts of a reach a host can enforce, and how to get the other parts. `here` means this machine."""
    if system == "macos" and here:
        return [Finding("reach", "sandbox", "ok", "Seatbelt; how it enforces a reach has not been seen yet")]
    if system != "linux":
        advice = "use a virtual machine, or run anyshell on a Linux host"
        what = (
            "a Job Object limits memory, processes and processor time, and confines nothing"
            if system == "windows" and here
            else "a reach on another host needs Linux there"
        )
        return [Finding("reach", "sandbox", "missing", what, advice)]
    from ...._environment.confining import facts_of
    from ....reach import SCOPED_SINCE, lack_of

    facts = await facts_of(backend, here=here)
    # The first finding is the verdict; the other findings name the parts of the host that led to the verdict.
    lack = lack_of(facts)
    findings = []
    if lack is None:
        findings.append(Finding("reach", "sandbox", "ok", "commands can be confined: --reach workspace"))
    else:
        findings.append(Finding("reach", "sandbox", "missing", *lack))
    if facts.bwrap is not None:
        findings.append(Finding("reach", "bubblewrap", "ok", f"{facts.version} ({facts.bwrap})"))
        if "user" not in facts.cannot:
            can = [name for part, name in _PARTS.items() if part not in facts.cannot]
            findings.append(Finding("reach", "namespaces", "ok", f"bubblewrap can make {', '.join(can)}"))
    if facts.apparmor:
        what = "restricts user namespaces to programs with a profile for them"
        findings.append(Finding("reach", "AppArmor", "ok", what))
    scoped = facts.landlock >= SCOPED_SINCE
    what = "with network=True commands are kept from abstract sockets outside"
    if not scoped:
        what = "with network=True commands reach abstract sockets outside: version 6, of Linux 6.12, keeps them from that"
    findings.append(Finding("reach", "Landlock", "ok", f"version {facts.landlock}; {what}"))
    counted = (
        "counted"
        if facts.counts_processes() or "pids" in facts.controllers
        else "not counted, as for root, and before Linux 5.14"
    )
    findings.append(Finding("reach", "kernel", "ok", f"{facts.kernel}; processes of a command are {counted}"))
    if facts.cgroup is None:
        group = "not delegated for memory and pids: limits are those of each process"
    else:
        group = f"delegated at {facts.cgroup}: limits of {' and '.join(facts.controllers)} hold for a command's whole tree"
    findings.append(Finding("reach", "cgroup v2", "ok", group))
    return findings
