"""A program that commits layers in child processes, each killed before a different step: see `test_trial`.

The program is small, since the cost of a fork depends on the memory of the process.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

assert sys.platform == "linux"

from anyshell.trial import commit, layer

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = ("mkdir", "open", "write", "link", "symlink", "chmod", "utime", "unlink", "rmdir", "pwrite")
"""The functions that count as a step, besides each exchange of names, and each line of the journal."""


def fill(tree: Path) -> None:
    """Create the initial state of the directory."""
    for name in ("sub/deep", "kept"):
        (tree / name).mkdir(parents=True)
    for name in ("a", "b", "gone", "sub/deep/y"):
        (tree / name).write_text("theirs")
    (tree / "kept").chmod(0o500)


def killed(tree: Path, place: Path, last: int) -> bool:
    """Commit in a child that is killed before its step of that number; return whether the kill happened."""
    child = os.fork()
    if not child:
        code = 1
        try:
            _commit(tree, place, last)
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def _commit(tree: Path, place: Path, last: int) -> None:
    made = layer.Layer("")
    upper = Path(made.make(str(place), str(tree))[0])
    made.look(1000, 10)
    for name in ("a", "b", "new"):
        (upper / name).write_text("ours")
    os.link(upper / "a", upper / "second")
    (upper / "dir").mkdir()
    (upper / "dir" / "link").symlink_to("nowhere")
    (upper / "dir" / "f").write_text("ours")
    for name in ("sub", "gone"):
        os.mknod(upper / name, stat.S_IFCHR, 0)
    (upper / "kept").mkdir(0o711)
    (upper / "kept" / "n").write_text("ours")
    made.read(10)
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*words: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*words, **named)

        return step

    commit._rename = counted(commit._rename)
    commit.Commit._note = counted(commit.Commit._note)  # type: ignore[method-assign]  # the step is counted
    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    made.commit()


def facts(tree: Path) -> dict[str, list[object]]:
    """The mode and content of each file, except temporary files of a commit."""
    found: dict[str, list[object]] = {}
    for path in sorted(tree.rglob("*")):
        if ".anyshell-" not in str(path.relative_to(tree)):
            at = path.lstat()
            content = path.read_text() if stat.S_ISREG(at.st_mode) else ""
            found[str(path.relative_to(tree))] = [at.st_mode, content, at.st_nlink if content else 0]
    return found


def main(top: Path, every: int) -> None:
    """Print the files before the commit, after each kill, and after the next trial; and the messages and leftovers of that trial."""
    for last in range(1, 1000, every):
        tree, place = top / f"tree{last}", top / f"layers{last}"
        tree.mkdir()
        fill(tree)
        before, was_killed = facts(tree), killed(tree, place, last)
        between, ended = facts(tree), layer._sweep(str(place))
        left = [str(path) for path in (*tree.rglob(".anyshell-*"), *place.iterdir())]
        print(json.dumps([before, between, facts(tree), ended, left]))
        if not was_killed:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
