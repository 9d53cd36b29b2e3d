"""Set Windows up under Wine, and run tests there."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from . import parts, windows
from .parts import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .windows import Windows

ROOT = Path(__file__).parents[2]

WINDOWS_ONLY = ("colorama", "pywinpty==3.1.2")
"""What the packages need on Windows alone, which pip does not find out on Linux."""


TEST_SECONDS = 120
"""Seconds that one test may take: programs start, and files are read and written, slowly here. Then its worker ends
with it, since a thread cannot be ended on Windows (pytest-timeout's method is the one of that name)."""


CONTRACT = ("tests/test_backends.py",)
"""What runs under each Python but the first: the contract, which depends on processes, pipes and the event loop, and
which `tox` runs on Linux. What else the suite tests runs under the first, and on Windows itself under every one."""

_SOME_FAILED = 1
"""pytest's exit code for it."""


def main(arguments: Sequence[str]) -> int:
    """Do what the first argument says, and give the exit code."""
    if not arguments or arguments[0] not in ("set-up", "test"):
        print("usage: python -m tests.wine set-up | test [PYTEST ARGUMENTS]", file=sys.stderr)
        return 2
    try:
        made = _set_up()
        return _test(made, arguments[1:]) if arguments[0] == "test" else 0
    except MissingPartError as error:
        required = parts.is_possible() and os.environ.get("ANYSHELL_REQUIRE") == "all"
        print(f"{'failed' if required else 'skipped'}: {error}", file=sys.stderr)
        return 1 if required else 0


def _set_up() -> Windows:
    with _alone():
        made = windows.set_up()
        for version in parts.PYTHONS:
            parts.fetch_wheels(_requirements(), version)
    return made


def _test(made: Windows, arguments: Sequence[str]) -> int:
    """Run pytest under every Python, all at the same time, each in a Wine of its own; the worst exit code counts.

    The first Python runs all that asks the system, the others `CONTRACT`; arguments that are given hold for each. What has failed runs once more: some one in ten thousand tests meets a process that Wine 8 cannot create, or a socket
    that has no room. Both runs are shown, and what fails twice has failed.
    """
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor() as pool:
        # Installed, as a user has it: from the wheel, with its version.
        parts.run_pip("install", "--no-deps", "--target", directory, ROOT)

        def test(version: str, out: BinaryIO) -> int:
            path = (Path(directory), parts.fetch_wheels(_requirements(), version))
            env = {
                "PYTHONUTF8": "1",
                "ANYSHELL_BASH": windows.windows_path(windows.git_directory() / "bin" / "bash.exe"),
                "PYTHONPATH": ";".join(map(windows.windows_path, path)),
                "PYTEST_DEBUG_TEMPROOT": "",  # temporary files are Windows' own
            }
            slow = ("--timeout", str(TEST_SECONDS), "--hypothesis-profile", "few")
            cache = f"cache_dir={windows.windows_path(Path(directory) / f'cache-{version}')}"
            which = arguments or (() if version == next(iter(parts.PYTHONS)) else CONTRACT)
            options = ("-m", "pytest", "-o", cache, *slow, *which)
            with made.copy() as windows_of_its_own, windows_of_its_own.awake():
                code = abs(windows_of_its_own.python(version, *options, env=env, out=out))
                if code == _SOME_FAILED:
                    out.write(b"What has failed runs once more, alone: Wine itself fails now and then.\n")
                    out.flush()
                    again = ("--last-failed", "--last-failed-no-failures", "none")
                    code = abs(windows_of_its_own.python(version, *options, *again, env=env, out=out))
            return code

        # One is shown as it goes on, the others when they are over.
        shown = [sys.stdout.buffer, *(io.BytesIO() for _ in parts.PYTHONS)]
        runs = [
            (version, out, pool.submit(test, version, out))
            for version, out in zip(parts.PYTHONS, shown, strict=False)
        ]
        worst = 0
        for version, out, run in runs:
            print(f"Python {version} for Windows:", flush=True)
            worst = max(worst, run.result())
            if isinstance(out, io.BytesIO):
                sys.stdout.buffer.write(out.getvalue())
                sys.stdout.flush()
    return worst


def _requirements() -> tuple[str, ...]:
    """What the package and its tests need, as ``pyproject.toml`` says it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    return (*project["project"]["dependencies"], *groups["test"], *groups["parallel"], *WINDOWS_ONLY)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let no other process set things up meanwhile: the others wait, and then find it done."""
    if sys.platform == "win32":
        raise MissingPartError("this is Windows already")
    import fcntl

    parts.cache().mkdir(parents=True, exist_ok=True)
    with (parts.cache() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
