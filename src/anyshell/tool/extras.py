"""The optional parts of a tool, made from the tool's arguments; heavy modules are imported only on use."""

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
    """Return the verdicts of a policy; raise `InvalidCommand` if the environment does not enforce the policy's reach."""
    from .verdicts import Verdicts  # here, since few tools need it

    if policy.reach is not None and policy is not env.policy:
        raise InvalidCommand(
            "policy: it has a reach, which the environment enforces: give it to Environment.detect(policy=...)"
        )
    return Verdicts(policy, env)


def minimizing_of(env: Environment, minimize: bool | Iterable[str | PathLike[str]]) -> Minimizing | None:
    """Return the minimizer, which leaves noise out, for the argument `minimize`; ``None`` for ``False``."""
    if minimize is False:
        return None
    from . import minimizing  # here, since few tools need it

    return minimizing.Minimizing(env, minimizing.rules_of(minimize))


def checked_view_limits(given: bool) -> bool:
    """Return the argument; raise `AnyshellError` if it is true and the extra ``policy`` is missing."""
    if given:
        from .viewing import installed

        if not installed():
            from ..policy.rules.policy import INSTALL

            raise AnyshellError(f"view_limits needs the extra policy: {INSTALL}")
    return given


def rules_of(interception: bool | Iterable[InterceptionRule]) -> tuple[InterceptionRule, ...]:
    """Return the interception rules of the argument `interception`.

    Raises:
        AnyshellError: The extra ``policy`` is missing, or a rule is not an `InterceptionRule`.
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
