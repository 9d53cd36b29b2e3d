"""A pool of environments, held by actors on a cluster of Ray. Needs the extra ``ray``."""

from __future__ import annotations

try:
    import ray as _ray  # noqa: F401 - what is missing is said here
except ModuleNotFoundError as error:
    if error.name != "ray":
        raise
    raise ModuleNotFoundError(
        "anyshell.ray needs ray, which is not installed: pip install 'anyshell[ray]'", name="ray"
    ) from None

from .environments import Environments as Environments
from .environments import Leased as Leased
from .environments import RunArguments as RunArguments
