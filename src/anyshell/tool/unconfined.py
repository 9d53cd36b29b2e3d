"""A warning to people that a model's commands run without a sandbox."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._environment import Environment

NO_SANDBOX = (
    "commands of the model run without a sandbox, as this user: they can read ~/.ssh, logins of clouds and browser profiles, and "
    "use the network"
)
"""The beginning of the warning."""

_LOG = logging.getLogger("anyshell")


def warn_of_no_sandbox(env: Environment) -> None:
    """Warn people, once for each kind of host, if no sandbox confines a model's commands without an explicit request."""
    if env.unconfined:
        _warn(can_confine=env.os == "linux")


@cache
def _warn(*, can_confine: bool) -> None:
    _LOG.warning(
        "%s. %s",
        NO_SANDBOX,
        "Confine them with reach=Reach.preset('workspace') or --reach workspace; 'none' instead states that no sandbox is wanted"
        if can_confine
        else "anyshell can confine commands on Linux hosts alone",
    )
