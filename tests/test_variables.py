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

from anyshell import BackendError, Environment, InvalidCommand, SSHOptions, Variables
from anyshell._runner.variables import (
    ASK_FOR_UTF8,
    HANG_GUARDS,
    NON_INTERACTIVE,
    NOT_FOR_MODELS,
    REMOVED,
    ask_for_utf8,
)
from anyshell.abc import ExitStatus
from anyshell.testing import FAKE_HOST, FakeBackend, Script

from .conftest import SSH_HOSTS, missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ssh_server import Server

SECONDS = 15
"""The bound of a command; a program that asks a person waits longer."""

NAMED_BY_THE_PROJECT = """
    PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER BAT_PAGER DELTA_PAGER GH_PAGER PSQL_PAGER AWS_PAGER LESS GIT_EDITOR EDITOR
    VISUAL GIT_TERMINAL_PROMPT GIT_ASKPASS SSH_ASKPASS TERM NO_COLOR CI DEBIAN_FRONTEND PIP_NO_INPUT npm_config_yes
    PYTHONUNBUFFERED TF_INPUT GH_PROMPT_DISABLED CLOUDSDK_CORE_DISABLE_PROMPTS
"""


def _on_a_terminal(command: str, directory: Path, **env: str) -> tuple[int, str]:
    """Run a command where a program could ask a person: with the variables of the set, on a terminal without input."""
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


def test_less_called_by_name_ends_without_a_key(tmp_path: Path) -> None:
    _have("less", "apt-get install less")
    (tmp_path / "file").write_text("one\ntwo\n")
    code, output = _on_a_terminal(
        "less file", tmp_path
    )  # less would wait for RETURN because of the dumb terminal alone
    assert code == 0
    assert "two" in output
    assert _on_a_terminal("less file | cat", tmp_path) == (0, "one\ntwo\n")


def test_editor_keeps_a_prepared_text_and_goes_on(repository: Path) -> None:
    subject = "git log -1 --format=%s"
    assert _on_a_terminal(f"git merge main && {subject}", repository)[1].endswith(
        "\nMerge branch 'main' into side\n"
    )
    assert _on_a_terminal(f"git commit --amend && {subject}", repository)[1].endswith(
        "\nMerge branch 'main' into side\n"
    )


def test_unedited_list_of_commits_is_not_applied(repository: Path) -> None:
    code, output = _on_a_terminal("git rebase -i HEAD~1", repository)
    assert code == 1
    assert "problem with the editor" in output
    assert _on_a_terminal("git status -sb", repository)[1] == "## side\n"
    assert _on_a_terminal("git rebase main && git log -1 --format=%s", repository)[1].endswith("side\n")


def test_missing_commit_message_fails_at_once(repository: Path) -> None:
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
        names.remove("OLDPWD")  # the name has no special meaning to PowerShell
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


def test_removed_variables_are_not_set() -> None:
    assert not REMOVED & NON_INTERACTIVE.keys()
    assert {"GPG_TTY", "SSH_TTY", "SYSTEMD_EDITOR", "PSQL_EDITOR", "PERLDOC_PAGER"} <= NOT_FOR_MODELS
    assert {"FORCE_COLOR", "CLICOLOR_FORCE"} <= REMOVED - NOT_FOR_MODELS


def test_set_has_every_variable_named_by_the_project() -> None:
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


def test_hang_guards_are_pagers_editors_and_prompts_alone() -> None:
    pagers = """
        PAGER MANPAGER GIT_PAGER SYSTEMD_PAGER BAT_PAGER DELTA_PAGER GH_PAGER PSQL_PAGER AWS_PAGER LESS
    """
    editors = """
        EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GH_EDITOR KUBE_EDITOR HGEDITOR SVN_EDITOR SUDO_EDITOR
    """
    prompts = """
        GIT_TERMINAL_PROMPT GIT_ASKPASS SSH_ASKPASS SSH_ASKPASS_REQUIRE GCM_INTERACTIVE DEBIAN_FRONTEND
        APT_LISTCHANGES_FRONTEND NEEDRESTART_MODE PIP_NO_INPUT PDM_NON_INTERACTIVE npm_config_yes
        COREPACK_ENABLE_DOWNLOAD_PROMPT COMPOSER_NO_INTERACTION HOMEBREW_NO_ASK PERL_MM_USE_DEFAULT NG_CLI_ANALYTICS
        TF_INPUT GH_PROMPT_DISABLED GLAB_NO_PROMPT CLOUDSDK_CORE_DISABLE_PROMPTS AWS_CLI_AUTO_PROMPT COMPOSE_MENU
        PLAYWRIGHT_HTML_OPEN
    """
    assert {*f"{pagers} {editors} {prompts}".split()} == HANG_GUARDS
    assert set(NON_INTERACTIVE) > HANG_GUARDS


def test_programs_on_windows_are_asked_for_utf8() -> None:
    python = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8:surrogateescape"}
    assert ask_for_utf8(frozenset()) == dict(ASK_FOR_UTF8) == {**python, "WSL_UTF8": "1"}
    # If one of the two variables chooses Python's encoding already, the other is not set against that choice.
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


def test_variables_are_chosen_by_names() -> None:
    names = ["PATH", "LC_ALL", "Path", "FOO", "GH_TOKEN", "my_Secret", "API_KEY_2", "SSH_AUTH_SOCK", "DB_DSN"]
    assert Variables().unset(names) == {"GH_TOKEN", "my_Secret", "API_KEY_2", "DB_DSN"}
    assert Variables(exclude=()).unset(names) == set()
    assert Variables(exclude=("f?o", "*sock")).unset(names) == {"FOO", "SSH_AUTH_SOCK"}
    assert Variables(inherit="core").unset(names) == set(names) - {"PATH", "LC_ALL", "Path"}
    assert Variables(inherit="core", exclude=("LC_*",)).unset(names) == set(names) - {"PATH", "Path"}
    assert Variables(inherit="none").unset(names) == set(names)


def test_bad_variables_are_refused_and_no_value_is_shown() -> None:
    for bad in (
        {"inherit": "some"},
        {"exclude": "*TOKEN*"},
        {"exclude": ("A\0",)},
        {"set": {"A-B": "hunter2"}},
    ):
        with pytest.raises(InvalidCommand) as failure:
            Variables(**bad)
        assert "hunter2" not in str(failure.value)
    assert "hunter2" not in repr(Variables(set={"A": "hunter2"}))
    with pytest.raises(InvalidCommand, match="variables must be"):
        Environment.detect(variables={"A": "b"})  # type: ignore[arg-type]  # bad input is the point


async def _names(env: Environment, *names: str, **given: str) -> set[str]:
    """The given variables that a command has."""
    text = f"env | cut -d= -f1 | grep -xE '{'|'.join(names)}'"
    if sys.platform == "win32":
        quoted = "', '".join(names)
        text = f"Get-ChildItem env: | ForEach-Object Name | Where-Object {{ $_ -in '{quoted}' }}"
    return set((await env.run(text, env=given)).output.text.split())


async def _given(variables: Variables | None, *names: str, **given: str) -> set[str]:
    async with Environment.detect(variables=variables) as env:
        return await _names(env, *names, **given)


def test_commands_have_the_chosen_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("HOME", "PATH", "FOO_TOKEN", "FOO", "CI", "ADDED")
    for name in ("HOME", "FOO_TOKEN", "FOO"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    assert asyncio.run(_given(None, *names)) == {"HOME", "PATH", "FOO_TOKEN", "FOO", "CI"}
    assert asyncio.run(_given(Variables(), *names)) == {"HOME", "PATH", "FOO", "CI"}
    assert asyncio.run(_given(Variables(inherit="core", set={"ADDED": "1"}), *names)) == {
        "HOME",
        "PATH",
        "CI",
        "ADDED",
    }
    assert asyncio.run(_given(Variables(set={"FOO_TOKEN": "mine"}), *names)) == {
        "HOME",
        "PATH",
        "FOO",
        "CI",
        "FOO_TOKEN",
    }
    assert "FOO_TOKEN" in asyncio.run(_given(Variables(), *names, FOO_TOKEN="the caller's"))


def test_variable_set_later_is_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def later() -> set[str]:
        async with Environment.detect(variables=Variables()) as env:
            monkeypatch.setenv("LATER_TOKEN", "1")
            return await _names(env, "LATER_TOKEN", "CI")

    assert asyncio.run(later()) == {"CI"}


@pytest.mark.skipif(sys.platform == "win32", reason="a session of PowerShell has another text")
def test_sessions_terminals_and_jobs_have_the_chosen_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOO_TOKEN", "1")
    text = "echo [$FOO_TOKEN] [$ADDED]"

    async def printed() -> list[str]:
        async with Environment.detect(variables=Variables(set={"ADDED": "2"})) as env:
            async with env.session() as session:
                in_session = await session.run(text)
            async with env.terminal(text) as terminal:
                ended = await terminal.wait()
            job = await env.start(text)
            await job.wait()
            return [
                in_session.output.text.strip(),
                ended.output.text.strip(),
                (await job.output()).text.strip(),
            ]

    assert asyncio.run(printed()) == ["[] [2]"] * 3


def test_another_host_is_asked_for_names_alone() -> None:
    asked = "one\nFOO_TOKEN\nnot a name!\nBASH_FUNC_x%%\n"

    async def spawned(output: str, code: int = 0) -> list[frozenset[str]]:
        backend = FakeBackend(
            lambda spawn: Script(stdout=[output.encode()], exit=ExitStatus(code=code)), info=FAKE_HOST
        )
        environment = await Environment.detect(backend, variables=Variables())
        await environment.run("x")
        return [process.spawn.unset for process in backend.processes]

    _, of_command = asyncio.run(spawned(asked))
    assert "FOO_TOKEN" in of_command
    assert not {"one", "BASH_FUNC_x%%"} & of_command
    for output, code in (("", 0), (asked, 1)):
        with pytest.raises(BackendError, match="did not list the names"):
            asyncio.run(spawned(output, code))


@pytest.mark.parametrize("name", SSH_HOSTS)
def test_variables_of_an_ssh_host_are_its_own(name: str, ssh_host: Callable[[str], Server]) -> None:
    options = ssh_host(name).options()

    async def given(variables: Variables | None, options: SSHOptions) -> set[str]:
        async with Environment.detect(options, variables=variables) as env:
            return await _names(env, "HOME", "USER", "ADDED")

    assert asyncio.run(given(None, options)) == {"HOME", "USER"}
    assert asyncio.run(given(Variables(exclude=("us*",), set={"ADDED": "1"}), options)) == {"HOME", "ADDED"}
    assert asyncio.run(given(Variables(inherit="none"), options)) == set()
