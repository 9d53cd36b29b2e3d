"""The parts that few tools have, made of their arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._exceptions import AnyshellError, InvalidCommand

if TYPE_CHECKING:
    from os import PathLike

    from .._environment import Environment
    from ..policy.interception import InterceptionRule
    from ..policy.rules import Policy
    from .minimizing import Minimizing
    from .verdicts import Verdicts


def verdicts_of(policy: Policy, env: Environment) -> Verdicts:
    """The verdicts of a policy; raises `InvalidCommand` for one whose reach the environment does not enforce."""
    from .verdicts import Verdicts  # what few tools need

    if policy.reach is not None and policy is not env.policy:
        raise InvalidCommand(
            "policy: it has a reach, which the environment enforces: give it to Environment.detect(policy=...)"
        )
    return Verdicts(policy, env)


def minimizing_of(env: Environment, minimize: bool | Iterable[str | PathLike[str]]) -> Minimizing | None:
    """The minimizer for the rules of an argument; it leaves noise out."""
    if minimize is False:
        return None
    from . import minimizing  # what few tools need

    return minimizing.Minimizing(env, minimizing.rules_of(minimize))


def checked_view_limits(given: bool) -> bool:
    """The argument; raises `AnyshellError` where the extra ``policy`` is missing."""
    if given:
        from .viewing import installed

        if not installed():
            from ..policy.rules.policy import INSTALL

            raise AnyshellError(f"view_limits needs the extra policy: {INSTALL}")
    return given


def rules_of(interception: bool | Iterable[InterceptionRule]) -> tuple[InterceptionRule, ...]:
    """The rules of an argument.

    Raises:
        AnyshellError: They need the extra ``policy``, or are no rules.
    """
    if interception is False:
        return ()
    from ..policy.interception import DEFAULTS, InterceptionRule
    from ..policy.parse.grammar import installed

    given: Any = interception
    rules: tuple[Any, ...] = (
        DEFAULTS if given is True else tuple(given) if isinstance(given, Iterable) else (None,)
    )
    if not all(isinstance(rule, InterceptionRule) for rule in rules):
        raise AnyshellError("interception must be True, False or InterceptionRules")
    if not installed("bash"):
        from ..policy.rules.policy import INSTALL

        raise AnyshellError(f"interception needs the extra policy: {INSTALL}")
    return rules
