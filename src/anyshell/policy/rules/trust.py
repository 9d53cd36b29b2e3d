"""The project files that the user has accepted: their digests, kept in a file that only the user can write."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..._exceptions import PolicyError
from ..._private import check_directory, create_file, make_directories

MOST_BELIEVED = 4096
"""Digests of accepted project files that are remembered; beyond that the oldest digest is forgotten."""

_ADMINISTRATOR = (
    Path("/etc/anyshell/policy.toml"),
    Path("/Library/Application Support/anyshell/policy.toml"),
)

_BELIEVED = "trusted-projects"
_REFUSAL = "other users may have written it: {fault}"


def remembered(digest: str) -> bool:
    """Whether a file's digest is among the digests of accepted files."""
    return digest in _digests()


def remember(digest: str) -> None:
    """Remember the digest of an accepted file.

    Raises:
        PolicyError: The digest cannot be written.
    """
    directory = configuration()
    digests = [*(each for each in _digests() if each != digest), digest][-MOST_BELIEVED:]
    scratch = directory / f"{_BELIEVED}.{os.getpid()}"
    try:
        make_directories(directory)
        check_directory(directory, refusal=_REFUSAL)
        with suppress(FileNotFoundError):
            scratch.unlink()
        with os.fdopen(create_file(str(scratch)), "w", encoding="ascii") as file:
            file.write("".join(f"{each}\n" for each in digests))
        os.replace(scratch, directory / _BELIEVED)
    except OSError as error:
        raise PolicyError(
            f"{directory}: cannot remember the project's file: {error.strerror or error}"
        ) from error


def _digests() -> list[str]:
    directory = configuration()
    try:
        check_directory(directory, refusal=_REFUSAL)
        with open(directory / _BELIEVED, "rb") as file:
            data = file.read(65 * MOST_BELIEVED)
    except OSError:
        return []
    return data.decode("ascii", "replace").split()


def user_rules() -> Path:
    """Return the path of the user's rule file on this machine, whether or not the file exists."""
    return configuration() / "policy.toml"


def user_files() -> tuple[Path, ...]:
    """Return the paths of all user files that influence a policy, whether or not the files exist."""
    return user_rules(), configuration() / _BELIEVED


def administrator_rules() -> Path | None:
    """Return the path of the administrator's rule file on this machine; ``None`` if no such file exists.

    Windows has no safe place for this file: every user may make directories in the directory of the settings for all users.
    """
    # On Windows neither path is absolute, because both have no drive.
    return next((path for path in _ADMINISTRATOR if path.is_absolute() and path.exists()), None)


def configuration() -> Path:
    """Return the directory of anyshell's configuration: $ANYSHELL_CONFIG_DIR, or the user's own directory.

    Raises:
        PolicyError: The user has no home directory.
    """
    if given := os.environ.get("ANYSHELL_CONFIG_DIR"):
        return Path(given)
    import platformdirs  # imported here, since most policies have no project

    try:
        return platformdirs.user_config_path("anyshell")
    except RuntimeError as error:  # a user without a home directory, as in a container with an arbitrary uid
        raise PolicyError("there is no home directory for your own rules; set ANYSHELL_CONFIG_DIR") from error
