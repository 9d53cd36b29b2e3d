"""A rewritten command does the same as the original: every shell on this machine runs both forms."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anyshell._types import Command, HostInfo
from anyshell.policy import leading_cd_into_cwd
from anyshell.shells.syntax import leading_cd

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.anyio

SHELLS = ("/bin/bash", "/bin/sh")
"""The shells that behave as after a cd when they are started in another directory; zsh does not: test_shells.py."""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A small directory tree: two directories, a link to one of them, a file."""
    top = tmp_path / "top"
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "a b").mkdir()
    (top / "~").mkdir()
    (top / "link").symlink_to(top / "sub" / "deep")
    (top / "file").write_text("x")
    (top / "sub" / "name").write_text("in sub\n")
    (top / "sub" / "back").write_text("cd - && pwd; echo $OLDPWD\n")
    (top / "locked").mkdir()
    (top / "home").mkdir()
    return top


async def rewritten(
    text: str, top: Path, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> Command:
    info = HostInfo(
        os="linux", arch="", name="", version="", hostname="", user="", home=str(top / "home"), directory="/"
    )

    async def can_enter(path: str) -> bool:
        return Path(path).is_dir() and "locked" not in path

    return await leading_cd_into_cwd(
        Command(text=text, env=env or {}, cwd=cwd),
        parse=leading_cd,
        info=info,
        directory=str(top),
        can_enter=can_enter,
    )


def run(shell: str, text: str, cwd: str, home: Path, env: Mapping[str, str]) -> tuple[int, str]:
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PWD": cwd, **env}
    done = subprocess.run(
        [shell, "-c", text, "sh"],
        cwd=cwd,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


REWRITTEN = [
    "cd sub && pwd",
    "cd sub/ && pwd",
    "cd ./sub/./deep && pwd",
    "cd sub//deep && pwd",
    "cd .. && pwd",
    "cd ../top/sub && pwd",
    "cd link && pwd && pwd -P && cd .. && pwd",
    "cd link && ls ..",
    "cd 'a b' && pwd",
    "cd a\\ b && echo $PWD",
    "cd '~' && pwd",
    "cd sub && cat name | tr a-z A-Z && echo done",
    "cd sub && (exit 3)",
    "cd sub && false && echo no",
    "cd sub && ! true",
    "cd sub && cat missing",
    "cd sub && no-such-program",
    "cd sub && { pwd; (sleep 0 & wait); } | cat",
    'cd sub && echo "$(cat name; pwd)"',
    "cd sub && echo $0 $# $?",
    "cd sub && f() { pwd; } && f",
    "cd sub && x=1 && echo ${x:-2} $((x + 1))",
    "cd sub && kill -TERM $$",
    "cd sub && pwd\n",
    "cd sub && printf '%s\\n' a \\\n b",
    "cd /tmp && pwd",
    "cd sub && sh -c 'c=cd; $c - && pwd'",
    "cd sub && sh ./back",
    "cd sub && eval 'c''d' -",
    'cd sub && "cd" - && pwd',
    "cd sub && env",
    "cd sub && cd deep && env",
    "cd sub && export -p",
]

NOT_REWRITTEN = [
    "cd missing && pwd",
    "cd file && pwd",
    "cd sub/missing/.. && pwd",
    "cd sub/.. && pwd",
    "cd link/.. && pwd",
    "cd ~/.. && pwd",
    "cd ~ && pwd",
    "cd ~/. && pwd",
    "cd /proc && pwd",
    "cd /proc/self && pwd -P",
    "cd ../../../../../../../../../proc/self && pwd -P",
    "cd /./dev//fd && ls",
    "cd /dev && ls",
    "cd locked && pwd",
    "cd sub && cd >/dev/null - && pwd",
    "cd //tmp && pwd",
    "cd sub && pwd & wait; pwd",
    "cd sub && false || pwd",
    "cd sub && echo $OLDPWD",
    "cd sub && cd - && pwd",
    "cd sub && echo $_",
    "cd sub && (",
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("text", REWRITTEN)
async def test_a_rewritten_command_does_the_same(text: str, shell: str, top: Path) -> None:
    command = await rewritten(text, top)
    assert command.cwd is not None
    assert command.text != text
    home = top / "home"
    assert run(shell, command.text, command.cwd, home, command.env) == run(shell, text, str(top), home, {})


@pytest.mark.parametrize("text", NOT_REWRITTEN)
async def test_a_command_is_left_alone_in_doubt(text: str, top: Path) -> None:
    assert await rewritten(text, top) == Command(text=text)


async def test_a_given_directory_is_kept(top: Path) -> None:
    assert await rewritten("cd sub && pwd", top, cwd="sub") == Command(text="cd sub && pwd", cwd="sub")


@pytest.mark.parametrize("name", ["CDPATH", "HOME", "OLDPWD", "PWD", "BASH_ENV"])
async def test_variables_that_affect_cd_prevent_the_rewrite(name: str, top: Path) -> None:
    assert (await rewritten("cd sub && pwd", top, env={name: str(top)})).cwd is None


async def test_other_variables_are_kept(top: Path) -> None:
    command = await rewritten("cd sub && pwd", top, env={"CI": "1"})
    assert command == Command(text="pwd", cwd=str(top / "sub"), env={"CI": "1", "OLDPWD": str(top)})
