"""The options of an environment, for `Environment.detect` and `Fleet`: validated once, and passed on as one object."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand
from .._types import OutputLimits, check_count, check_seconds, check_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._runner.variables import Interactive
    from .._types import Variables
    from ..abc import Resolver
    from ..output import ArtifactStore
    from ..policy.audit import Audit
    from ..policy.redaction import Redaction
    from ..policy.rules import Policy
    from ..reach import Reach, Sandbox
    from ..shells import Prefix

MAX_JOBS = 16
"""Jobs at once, adopted ones not counted, unless `Environment.detect(max_jobs=)` says otherwise; one more job is an error."""

MAX_TERMINALS = 16
"""Driven terminals in one environment, unless `Environment.detect(max_terminals=)` is given; one more terminal is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentOptions:
    """The options of an environment. `Environment.detect` explains each option.

    Attributes:
        shell: A kind of shell, or a path; ``None`` is the host's first usable shell.
        cwd: The working directory of commands; ``None`` is the host's own directory.
        interactive: Whether the host's pager, editor, prompt, colour and progress variables are left unchanged; ``"watched"``
            leaves all but pager, editor and prompts.
        limits: The limits of an output's text.
        artifacts: The store of whole outputs whose text was cut; ``None`` keeps no whole output.
        snapshot: Whether every shell starts from the user's own set-up.
        prefix: The words that stand before every shell.
        max_jobs: Jobs that run at once.
        max_terminals: Driven terminals that are entered at once.
        background_after: Seconds after which a command goes on as a job; ``None`` is never.
        policy: The policy for commands of models; ``None`` means no policy.
        variables: The host's variables that commands have; ``None`` is all of them.
        redact: The secrets that are masked in output; ``None`` masks nothing.
        audit: The audit log of every command; ``None`` means no audit log.
        resolvers: The resolvers of internal addresses, by scheme.
        reach: The reach of commands, or the sandbox that enforces one; ``None`` confines nothing.
        brief: Whether the host is asked only for the facts that a command needs, unless another option needs more.

    Raises:
        InvalidCommand: An option is invalid; the message names the option.
    """

    shell: str | None = None
    cwd: str | None = None
    interactive: Interactive = False
    limits: OutputLimits = field(default_factory=OutputLimits)
    artifacts: ArtifactStore | None = None
    snapshot: bool = False
    prefix: Prefix | None = None
    max_jobs: int = MAX_JOBS
    max_terminals: int = MAX_TERMINALS
    background_after: float | None = None
    policy: Policy | None = None
    variables: Variables | None = None
    redact: Redaction | None = None
    audit: Audit | None = None
    resolvers: Mapping[str, Resolver | None] = field(default_factory=dict)
    reach: Reach | Sandbox | None = None
    brief: bool = False

    def __post_init__(self) -> None:
        if self.reach is not None:
            from ..reach import Reach, Sandbox  # here, since few environments have one

            if not isinstance(self.reach, Reach | Sandbox):
                raise InvalidCommand(
                    f"reach must be a Reach, such as Reach.preset('workspace'), not {type(self.reach).__name__}"
                )
        for name, kind, wanted, has in (
            ("limits", self.limits, "OutputLimits(budget=...)", "budget"),
            ("artifacts", self.artifacts, "an ArtifactStore, None or 'default'", "create"),
            ("policy", self.policy, "a Policy, such as Policy.preset('workspace')", "decide"),
            ("audit", self.audit, "an Audit(directory)", "requested"),
        ):
            if kind is not None and not hasattr(kind, has):
                raise InvalidCommand(f"{name} must be {wanted}, not {type(kind).__name__}")
        for name in ("shell", "cwd"):
            if getattr(self, name) is not None:
                check_text(name, getattr(self, name))
        if self.variables is None and self.policy is not None:
            object.__setattr__(self, "variables", self.policy.variables)
        for reach in (self.reach, None if self.policy is None else self.policy.reach):
            if self.variables is None and reach is not None:
                object.__setattr__(self, "variables", getattr(reach, "environment", None))
        check_count("max_jobs", self.max_jobs)
        check_count("max_terminals", self.max_terminals)
        check_seconds("background_after", self.background_after)
        if self.variables is not None:
            from .._types import Variables

            if not isinstance(self.variables, Variables):
                raise InvalidCommand(
                    f"variables must be Variables(inherit=...), not {type(self.variables).__name__}"
                )
        if self.interactive not in (True, False, "watched"):
            raise InvalidCommand(f"interactive must be True, False or 'watched', not {self.interactive!r}")
        if not hasattr(self.resolvers, "items"):
            raise InvalidCommand(
                f"resolvers must map schemes to resolvers, such as {{'skill': Root(path='/srv')}}, not {type(self.resolvers).__name__}"
            )
        object.__setattr__(
            self, "resolvers", dict(self.resolvers)
        )  # a copy, which no later change by the caller affects
        for scheme, resolver in self.resolvers.items():
            if not re.fullmatch(r"[a-z][a-z0-9+.-]{0,31}", scheme):
                raise InvalidCommand(f"resolvers: {scheme!r} is not a scheme: for one, 'skill'")
            if resolver is not None and not hasattr(resolver, "resolve"):
                raise InvalidCommand(
                    f"resolvers: that of {scheme} must have a method resolve(name): for one, anyshell.types.Root"
                )
        for name in ("shell", "cwd"):
            if getattr(self, name) == "":
                raise InvalidCommand(f"{name} is empty: leave it out for the default")


def to_redaction(redact: bool | Redaction) -> Redaction | None:
    """Read the option ``redact``.

    Raises:
        InvalidCommand: `redact` is neither a truth value nor a `Redaction`.
    """
    if redact is False:
        return None
    from ..policy.redaction import Redaction  # here, since few environments need its modules

    if redact is True:
        return Redaction()
    if not isinstance(redact, Redaction):
        raise InvalidCommand(f"redact must be True, False or a Redaction, not {type(redact).__name__}")
    return redact
