"""A word to people, that commands of a model run without a sandbox."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._environment import Environment

_LOG = logging.getLogger("anyshell")


def mention_no_sandbox(env: Environment) -> None:
    """Tell people, once in the life of this process, if no sandbox stands before a model's commands by their own decision."""
    if env.unconfined:
        _mention()


@cache
def _mention() -> None:
    _LOG.warning(
        "commands of the model run without a sandbox, as this user: they can read ~/.ssh, logins of clouds and browser "
        "profiles, and use the network. To confine them: reach=Reach.preset('workspace'), or "
        "--reach workspace; if that is meant: 'none'"
    )
