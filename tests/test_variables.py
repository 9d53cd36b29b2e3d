from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import pytest

from anyshell import Environment
from anyshell._runner.variables import (
    ASK_FOR_UTF8,
    HANG_GUARDS,
    NON_INTERACTIVE,
    NOT_FOR_MODELS,
    REMOVED,
    ask_for_utf8,
)
from anyshell.testing import FAKE_HOST, FakeBackend, Script

from .conftest import missing

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 15
"""What waits for a person, waits longer."""

NAMED_BY_THE_PROJECT = """
    PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER BAT_PAGER DELTA_PAGER GH_PAGER PSQL_PAGER AWS_PAGER LESS GIT_EDITOR EDITOR
    VISUAL GIT_TERMINAL_PROMPT GIT_ASKPASS SSH_ASKPASS TERM NO_COLOR CI DEBIAN_FRONTEND PIP_NO_INPUT npm_config_yes
    PYTHONUNBUFFERED TF_INPUT GH_PROMPT_DISABLED CLOUDSDK_CORE_DISABLE_PROMPTS
"""


def _on_a_terminal(command: str, directory: Path, **env: str) -> tuple[int, str]:
    """Run a command where a person could be asked: with the set, on a terminal without input."""
    if os.name != "posix":
        pytest.skip("needs a POSIX terminal")
    program = "import pty, os, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(['sh', '-c', sys.argv[1]])))"
    result = subprocess.run(
        [sys.executable, "-c", program, command],
        cwd=directory,
        env={**os.environ, "HOME": str(directory), **NON_INTERACTIVE, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return result.returncode, result.stdout.replace("\r\n", "\n")


def _have(program: str, how: str) -> None:
    if os.name != "posix":
        pytest.skip("needs a POSIX terminal")
    if subprocess.run(["sh", "-c", f"command -v {program}"], capture_output=True, check=False).returncode:
        missing(program, how)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    _have("git", "apt-get install git")
    script = """
        git init -q -b main . && git config user.name A && git config user.email a@example.org
        git config core.editor 'sleep 300 #' && git config sequence.editor 'sleep 300 #'
        git config core.pager 'sleep 300 #'
        for i in 1 2 3; do echo $i > file && git add file && git commit -qm "change $i" || exit; done
        git checkout -qb side HEAD~1 && echo side > other && git add other && git commit -qm side
    """
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)}, check=True)
    return tmp_path


def test_a_pager_prints_and_ends(repository: Path) -> None:
    code, output = _on_a_terminal("git log --format=%s%n%200b -p; git --paginate diff main", repository)
    assert code == 0
    assert "change 1" in output


def test_less_called_by_name_ends_by_itself(tmp_path: Path) -> None:
    _have("less", "apt-get install less")
    (tmp_path / "file").write_text("one\ntwo\n")
    code, output = _on_a_terminal(
        "less file", tmp_path
    )  # a dumb terminal alone would make it wait for RETURN
    assert code == 0
    assert "two" in output
    assert _on_a_terminal("less file | cat", tmp_path) == (0, "one\ntwo\n")


def test_an_editor_leaves_a_text_as_it_is_and_goes_on(repository: Path) -> None:
    subject = "git log -1 --format=%s"
    assert _on_a_terminal(f"git merge main && {subject}", repository)[1].endswith(
        "\nMerge branch 'main' into side\n"
    )
    assert _on_a_terminal(f"git commit --amend && {subject}", repository)[1].endswith(
        "\nMerge branch 'main' into side\n"
    )


def test_a_list_of_commits_that_cannot_be_edited_is_not_taken_as_it_is(repository: Path) -> None:
    code, output = _on_a_terminal("git rebase -i HEAD~1", repository)
    assert code == 1
    assert "problem with the editor" in output
    assert _on_a_terminal("git status -sb", repository)[1] == "## side\n"
    assert _on_a_terminal("git rebase main && git log -1 --format=%s", repository)[1].endswith("side\n")


def test_a_text_that_must_be_written_is_missed_at_once(repository: Path) -> None:
    code, output = _on_a_terminal("git commit --allow-empty", repository)
    assert code == 1
    assert "empty commit message" in output


def test_git_does_not_ask_for_a_password(repository: Path) -> None:
    ask = "printf 'protocol=https\\nhost=example.org\\n\\n' | git -c credential.helper= credential fill"
    code, output = _on_a_terminal(ask, repository)
    assert code == 128
    assert "terminal prompts disabled" in output


def test_ssh_does_not_ask_for_a_passphrase(tmp_path: Path) -> None:
    _have("ssh-keygen", "apt-get install openssh-client")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", "key"], cwd=tmp_path, check=True
    )
    code, output = _on_a_terminal("ssh-keygen -y -f key", tmp_path)
    assert code != 0
    assert "incorrect passphrase" in output


def test_pip_finds_its_options_in_the_variables(tmp_path: Path) -> None:
    if find_spec("pip") is None:
        missing("pip", "python -m ensurepip")
    code, output = _on_a_terminal(f"'{sys.executable}' -m pip config debug", tmp_path)
    assert code == 0
    for line in ("PIP_NO_INPUT='1'", "PIP_PROGRESS_BAR='off'", "PIP_DISABLE_PIP_VERSION_CHECK='1'"):
        assert line in output


def test_no_variable_of_the_host_brings_a_person_or_colour_back(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["HERE", "OLDPWD", *REMOVED]
    if sys.platform == "win32":
        names.remove("OLDPWD")  # it means nothing to PowerShell
    text = "env | cut -d= -f1 | grep -xE '" + "|".join(names) + "'"
    if sys.platform == "win32":
        text = (
            "Get-ChildItem env: | ForEach-Object Name | Where-Object { $_ -in '" + "', '".join(names) + "' }"
        )

    async def printed(*, interactive: bool = False, env: dict[str, str] | None = None) -> set[str]:
        async with Environment.detect(interactive=interactive) as environment:
            return set((await environment.run(text, env=env)).output.text.split())

    for name in (*REMOVED, "HERE"):
        monkeypatch.setenv(name, "1")
    assert asyncio.run(printed()) == {"HERE"}
    assert asyncio.run(printed(env={"GPG_TTY": "/dev/null"})) == {"GPG_TTY", "HERE"}
    assert asyncio.run(printed(interactive=True)) == {"HERE", *REMOVED}


def test_what_is_removed_is_not_set_as_well() -> None:
    assert not REMOVED & NON_INTERACTIVE.keys()
    assert {"GPG_TTY", "SSH_TTY", "SYSTEMD_EDITOR", "PSQL_EDITOR", "PERLDOC_PAGER"} <= NOT_FOR_MODELS
    assert {"FORCE_COLOR", "CLICOLOR_FORCE"} <= REMOVED - NOT_FOR_MODELS


def test_everything_that_the_project_names_is_in_the_set() -> None:
    assert set(NAMED_BY_THE_PROJECT.split()) <= set(NON_INTERACTIVE)
    assert (NON_INTERACTIVE["TERM"], NON_INTERACTIVE["NO_COLOR"], NON_INTERACTIVE["CI"]) == (
        "dumb",
        "1",
        "true",
    )


def test_every_name_and_value_can_be_set_on_any_system() -> None:
    for name, value in NON_INTERACTIVE.items():
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        assert value  # an empty variable does not exist on Windows
        assert value.isprintable()
        assert "/" not in value  # no program is in the same place on every system
    assert len({name.upper() for name in NON_INTERACTIVE}) == len(NON_INTERACTIVE)


def test_the_set_cannot_be_changed_by_accident() -> None:
    with pytest.raises(TypeError):
        NON_INTERACTIVE["CI"] = "0"  # type: ignore[index]  # it must not be writable


def test_what_guards_against_hanging_is_pagers_editors_and_prompts_alone() -> None:
    assert set(NON_INTERACTIVE) > HANG_GUARDS
    assert {"PAGER", "LESS", "EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "DEBIAN_FRONTEND"} <= HANG_GUARDS
    assert not HANG_GUARDS & {"TERM", "CI", "NO_COLOR", "PYTHONUNBUFFERED", "PIP_PROGRESS_BAR"}


def test_programs_on_windows_are_asked_for_utf8() -> None:
    python = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8:surrogateescape"}
    assert ask_for_utf8(frozenset()) == dict(ASK_FOR_UTF8) == {**python, "WSL_UTF8": "1"}
    # Who has said how Python is to speak is not contradicted by the other of the two.
    for name in python:
        assert ask_for_utf8(frozenset({name})) == {"WSL_UTF8": "1"}
    assert ask_for_utf8(frozenset({"WSL_UTF8"})) == python


@pytest.mark.parametrize("interactive", [False, True])
def test_hosts_that_are_not_windows_are_not_asked_for_utf8(*, interactive: bool) -> None:
    async def given(system: Literal["linux", "windows"], *variables: str) -> set[str]:
        host = replace(FAKE_HOST, os=system, variables=frozenset(variables))
        backend = FakeBackend(lambda spawn: Script(), info=host)
        environment = await Environment.detect(backend, interactive=interactive)
        await environment.run("x")
        return backend.processes[0].spawn.settings.keys() & ASK_FOR_UTF8.keys()

    assert asyncio.run(given("linux")) == set()
    assert asyncio.run(given("windows")) == ASK_FOR_UTF8.keys()
    assert asyncio.run(given("windows", "PYTHONUTF8", "WSL_UTF8")) == set()
