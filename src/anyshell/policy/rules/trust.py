"""The files of projects that the user has believed, by their digests, in a file that is the user's alone."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..._exceptions import PolicyError
from ..._private import check_directory, create_file, make_directories

MOST_BELIEVED = 4096
"""Digests of projects' files that are remembered; the oldest is forgotten."""

_ADMINISTRATOR = (
    Path("/etc/anyshell/policy.toml"),
    Path("/Library/Application Support/anyshell/policy.toml"),
)

_BELIEVED = "trusted-projects"
_REFUSAL = "it may hold what this user did not put there: {fault}"


def remembered(digest: str) -> bool:
    """Whether a file's digest is among those that were believed."""
    return digest in _digests()


def remember(digest: str) -> None:
    """Add a digest.

    Raises:
        PolicyError: It cannot be written.
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
    """The file of the user's rules on this machine, whether or not it is there."""
    return configuration() / "policy.toml"


def user_files() -> tuple[Path, ...]:
    """Every file of this user that has a say in a policy, whether or not it is there."""
    return user_rules(), configuration() / _BELIEVED


def administrator_rules() -> Path | None:
    """The file of the administrator's rules on this machine; ``None`` if there is none.

    Windows has no such place: every user may make directories in the one for the settings of all.
    """
    # Without a drive, neither is absolute on Windows.
    return next((path for path in _ADMINISTRATOR if path.is_absolute() and path.exists()), None)


def configuration() -> Path:
    """Below $ANYSHELL_CONFIG_DIR, or else the user's own configuration.

    Raises:
        PolicyError: The user has no home directory.
    """
    if given := os.environ.get("ANYSHELL_CONFIG_DIR"):
        return Path(given)
    import platformdirs  # here, since most policies have no project

    try:
        return platformdirs.user_config_path("anyshell")
    except RuntimeError as error:  # a user without a home, as in a container of an arbitrary uid
        raise PolicyError("there is no home directory for your own rules; set ANYSHELL_CONFIG_DIR") from error
