"""A command on trial on a host reached by SSH: the same as on this machine, by a program for the host's Python."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import AnyshellError, Environment, Reach
from anyshell.reach.host import text_of

assert sys.platform == "linux"  # else mypy checks the code below on every platform

from . import test_checkpoints, test_trial
from .conftest import bubblewrap, missing, open_to_all, row
from .processes import unique_seconds, wait_none
from .ssh_server import SSHD, is_root, openssh, ordinary_user
from .test_trial import tree  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from .ssh_server import Server

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["root", "ordinary"])
def login(request: pytest.FixtureRequest, tree: Path) -> Iterator[Server]:
    """OpenSSH's server, for a user who owns the directory, and whose home is above it."""
    bubblewrap()
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    if request.param == "root" and not is_root():
        pytest.skip("only root may log in as root without its password")
    with ordinary_user() as user:
        name = "root" if request.param == "root" else user
        if is_root():
            open_to_all(tree.parent)
            subprocess.run(["chown", "-R", f"{name}:", tree.parent], check=True)
        with openssh(name, variables=f"HOME={tree.parent}") as made:
            yield made


@pytest.fixture
async def env(
    login: Server,
    tree: Path,
    anyio_backend: str,
) -> AsyncIterator[Environment]:
    async with Environment.detect(login.options(), cwd=str(tree)) as environment:
        yield environment


def left(tree: Path) -> list[Path]:
    """The contents of the places for layers."""
    own = f"anyshell-trials-{tree.stat().st_uid}"
    tops = [tree.parent / ".local/state/anyshell/trials", Path("/tmp", own), Path("/dev/shm", own)]
    return [path for top in tops if top.is_dir() for path in top.iterdir()]


async def test_trials_on_a_host_match_those_on_this_machine(
    env: Environment,
    tree: Path,
    login: Server,
) -> None:
    with row("nothing is real without a commit"):
        await test_trial.test_nothing_is_real_without_a_commit(env, tree)
    with row("elsewhere"):
        await test_trial.test_paths_outside_the_tree_are_not_written(env, tree)
        (tree / "a").write_text("a\n")
    with row("a link"):
        await test_trial.test_a_link_in_the_place_of_a_directory_is_not_followed(env, tree)
        (tree / "sub" / "deep").unlink()
        (tree / "sub" / "deep").mkdir()
    with row("every conflict"):
        await test_trial.test_every_conflict_is_named(env, tree)
    with row("names, and what they are"):
        text = "printf 'one\\377' > \"$(printf 'n\\n\\377')\"; ln -s a link; mkdir new; chmod 750 new; truncate -s 1M sparse; chmod 711 ."
        async with env.trial(text) as trial:
            assert trial.outcome.output.text == ""
            await trial.commit()
        assert Path(os.fsdecode(os.fsencode(tree) + b"/n\n\xff")).read_bytes() == b"one\xff"
        assert (os.readlink(tree / "link"), (tree / "sparse").stat().st_blocks) == ("a", 0)
        assert [oct((tree / name).stat().st_mode)[-3:] for name in (".", "new")] == ["711", "750"]
    assert not left(tree)


async def test_trial_without_a_commit_leaves_nothing(
    env: Environment,
    tree: Path,
    login: Server,
) -> None:
    seconds = unique_seconds()
    async with env.trial(f"echo x > a; (setsid sleep {seconds} &) ; sleep {seconds}", timeout=5) as trial:
        assert trial.outcome.status == "timed_out"
        assert [each.path for each in trial.effects.changed] == ["a"]
        assert left(tree)
    await wait_none(seconds)
    assert (tree / "a").read_text() == "a\n"
    assert not left(tree)
    async with Environment.detect(login.options(), cwd="/sys") as mounted:
        with pytest.raises(AnyshellError, match="mounted at"):
            await mounted.trial("true").run()


async def test_checkpoints_on_a_host_match_those_on_this_machine(
    env: Environment,
    tree: Path,
    login: Server,
) -> None:
    with row("what came from elsewhere"):
        (tree / "sub" / "deep" / "y").unlink()
        (tree / "sub" / "deep").rmdir()
        (tree / "b").unlink()
        await test_checkpoints.test_changes_from_elsewhere_are_kept_and_named(env)
    with row("another name, and modes"):
        for path in tree.iterdir():
            (shutil.rmtree if path.is_dir() else os.unlink)(path)
        await test_checkpoints.test_uncovered_directory_is_kept_under_its_new_name(env)
    kept = tree.parent / ".local/state/anyshell/checkpoints"
    assert [path.stat().st_mode & 0o077 for path in kept.rglob("*")].count(0) == len([*kept.rglob("*")]) > 5
    with pytest.raises(AnyshellError, match="not kept any more"):
        await env.restore(replace(await env.checkpoint(), id="none"))


async def test_reach_of_the_environment_holds(login: Server, tree: Path) -> None:
    reach = Reach.preset("workspace")
    async with Environment.detect(login.options(), cwd=str(tree), reach=reach) as env:  # noqa: SIM117 - the trial is what is tested
        async with env.trial(
            "echo x > new; ls ~/.ssh; cat /proc/net/dev | grep -c :", split_stderr=True
        ) as trial:
            assert [each.path for each in trial.effects.created] == ["new"]
            assert trial.outcome.output.text == "1\n"
            await trial.commit()
    assert (tree / "new").read_text() == "x\n"


def test_an_old_python_can_read_the_program() -> None:
    for name in ("files", "commit", "layer", "overlay", "store"):
        text = text_of(f"{name}.py", "anyshell.trial")
        ast.parse(text, feature_version=(3, 6))
        assert "with (\n" not in text, "no Python before 3.9 reads it, and the parser does not say so"


def test_names_beyond_ascii_work_in_an_ascii_locale(tmp_path: Path) -> None:
    """The program for a host, as run by Python 3.6 in the locale C, and by later versions in some other locales."""
    root = tmp_path / "trée"
    root.mkdir()
    name = "é\n\udcfe"
    (root / name).write_text("then")
    text = "\n".join(text_of(f"{each}.py", "anyshell.trial") for each in ("files", "store"))
    surroundings = {"LC_ALL": "C", "HOME": str(tmp_path)}
    words: tuple[object, ...] = ([], 1000, 10, 0.0)

    def ask(*step: object) -> Any:
        done = subprocess.run(
            [sys.executable, "-X", "utf8=0", "-I", "-S", "-c", text],
            input=json.dumps([str(root), *step], ensure_ascii=False).encode("utf-8", "surrogateescape"),
            env=surroundings,
            capture_output=True,
            check=True,
        )
        return json.loads(done.stdout.decode("utf-8", "surrogateescape"))

    _, taken = ask("take", [*words, "", ""])
    assert taken["directory"] == str(root)
    (root / name).write_text("now!")
    _, done = ask("restore", [[taken["id"], str(root)], None, words])
    assert done["restored"] == [name]
    assert (root / name).read_text() == "then"
