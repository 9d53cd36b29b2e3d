"""Wrong command lines, and the message of ``anyshell`` for each.

``python -m tests.cli_mistakes`` prints the messages. Each command line runs as a process, forked from one that has imported
the program.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MISTAKES = [
    "rnu true",
    "exec true",
    "run",
    "run --timout 5 true",
    "run --timeout 5x true",
    "run --timeout -1 true",
    "run --timeout 0 true",
    "run --timeout",
    "run --grace soon true",
    "run --host '' true",
    "run --host ftp://h true",
    "run --host ssh://h:99999 true",
    "run --host 'a b' true",
    "run --host u:secret@h true",
    "run --shell fishy true",
    "run --shell '' true",
    "run --shell ./bash true",
    "run --cwd /no/such/directory true",
    "run --cwd file true",
    "run --cwd '' true",
    "run --env NAME true",
    "run --env =x true",
    "run --env 'A B=x' true",
    "run --columns 5 true",
    "run --pty --columns many true",
    "run --pty --columns 1 true",
    "run --left-behind leave true",
    "run --limit lots true",
    "run --reach everything true",
    "run --record /no/such/directory/r.cast true",
    "run --record file true",
    "run --record-format v3 true",
    "run --trial --json true",
    "run --commit true",
    "run --background --pty true",
    "run --prefix nosuchprogram true",
    "cp file",
    "artifacts show nosuch",
    "artifacts show 'artifact://x?lines=b-a'",
    "artifacts prune --older-than soon",
    "call 'not json'",
    "call '[]'",
    """call '{"command": "true"}' --policy nosuch""",
    "schema --format gemini",
    "policy check --preset nosuch",
    "policy explain",
    "fleet true",
    "fleet --hosts '' true",
    "fleet --hosts a --parallel 0 true",
    "fleet --hosts-file /no/such/file true",
    "jobs show nosuch",
    "jobs stop",
    "replay /no/such/recording",
    "replay file",
    "screenshot file",
    "undo nosuch",
    "mcp --print-config emacs",
    "mcp --http --print-config claude",
    "completion tcsh",
    "audit verify /no/such/file",
    "--nonsense",
    "help rnu",
    "jobs shw x",
    "jobs nosuch",
    "completion",
    "undo --cwd /no/such/directory",
    "describe --shell fishy",
    "fleet --hosts local --shell fishy true",
    "cp file fifo",
    "run -c 'echo hi'",
    "run --host web-1,web-2 true",
    "run --timeout 5m30 true",
    "run --quite true",
    "run --record . true",
    "run --record '' true",
    "run --record-input true",
    "run --split-stderr true",
    "run --prefix 'nice; true' true",
    "run --checkpoint --background true",
    "run --unattended --pty true",
    "run '   '",
    "run --host h:22 true",
    "run --host me@ true",
    "console true",
    "fleet --hosts a,,b true",
    "fleet --hosts a,ssh://a true",
    "fleet --hosts-file file true",
    "fleet --hosts local --parallel many true",
    "fleet --hosts local --output-dir file true",
    "jobs show ffff",
    "jobs tail ffff --since -1",
    "artifacts show x --lines 1-2 --bytes 0-5",
    "artifacts prune --all --max-age 5",
    """call '{"command": "true", "command": "false"}'""",
    "call ''",
    """call '{"command": "true"}' --policy file""",
    "doctor web-1",
    "policy check --workspace '' ls",
    "policy check --rules file ls",
    "policy explain ls -l",
    "policy test",
    "cp -R . there",
    "cp . there",
    "cp '' x",
    "undo --list --yes",
    "replay file --speed 0",
    "screenshot file -o x.gif",
    "mcp --port 80",
    "audit show /no/such",
    "audit verify --directory file",
    "audit grep '('",
    "version",
    "RUN true",
    "ls -l",
]
_USAGE = re.compile(r"\AUsage: .*\nTry .*\n\n")
_PROGRAM = """
import importlib, json, os, pkgutil, sys
import anyshell.cli.commands
from anyshell.cli import main
for each in pkgutil.walk_packages(anyshell.cli.commands.__path__, "anyshell.cli.commands."):
    if not each.name.endswith((".windows", ".keyboard")):
        importlib.import_module(each.name)
for words in json.load(sys.stdin):
    pid = os.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv[1:] = words
        try:
            main(prog_name="anyshell")
        except SystemExit as end:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)  # not by the end of an interpreter, which takes apart what parent and child share
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(1, b"\\0%d\\0" % status)
"""


def messages(directory: Path) -> dict[str, tuple[int, str]]:
    """The exit code and the message of each command line, without the usage line, in a directory with one file."""
    (directory / "file").write_text("no recording\n")
    if sys.platform != "win32":
        os.mkfifo(directory / "fifo")
    surroundings = {
        **os.environ,
        "HOME": str(directory),
        "XDG_STATE_HOME": str(directory / "state"),
        "COLUMNS": "120",
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps([shlex.split(each) for each in MISTAKES]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=directory,
        env=surroundings,
        check=True,
        timeout=50,
    )
    parts = done.stdout.split("\0")
    return {
        each: (int(code), _USAGE.sub("", said).replace(str(directory), "DIRECTORY").strip())
        for each, said, code in zip(MISTAKES, parts[::2], parts[1::2], strict=False)
    }


def report(said: Mapping[str, tuple[int, str]]) -> str:
    """All messages as one text."""
    return "\n".join(f"$ anyshell {each}\n{text}\n[{code}]\n" for each, (code, text) in said.items())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(report(messages(Path(made))))
