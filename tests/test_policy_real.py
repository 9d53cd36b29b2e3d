"""Lines that `read-only` allows, run for real: they change nothing, and run no planted program.

Lines are made of programs, of flags, also of those that write and run, and of files whose names are flags. The policy is asked about
each; those that it allows are run by bash, all in one process, in a throwaway tree. One tree has a hostile configuration of
git; in another git's is plain, so that its commands are allowed. Both have hostile attributes, aliases, dotfiles and PATH.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import random
import re
import stat
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .conftest import bubblewrap
from .test_policy_corpus import EVERYDAY, HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

assert sys.platform != "win32"

from anyshell.policy.rules.facts import LocalFacts
from anyshell.policy.rules.policy import Policy

CANDIDATES = 6_000
"""The number of generated lines for a tree."""

SEEDS = {"plain": 49, "hostile": 51}
"""The seed of the generated lines of each tree: another sample may have fewer allowed lines."""

LEAST_ALLOWED = 1_000
"""The least number of allowed lines, generated and of the corpus, with which a tree is a valid test."""

SECONDS = 150
"""The most seconds for all lines of a tree; on an idle machine they take a thirtieth of that."""

PLANTED = [
    "planted",
    "gzip",
    "bzip2",
    "xz",
    "zstd",
    "less",
    "more",
    "most",
    "pager",
    "sensible-pager",
    "view",
    "vi",
    "vim",
    "ed",
    "nano",
    "editor",
    "sensible-editor",
    "gpg",
    "gpg2",
    "ssh",
    "pr",
    "col",
    "nroff",
    "man",
    "dircolors",
    "tput",
    "lessopen",
    "delta",
    "perl",
    "python",
    "ruby",
    "git-planted",
    "git-log",
    "git-status",
    "clean",
    "smudge",
    "textconv",
    "fsmonitor",
    "tac",
    "strings",
    "sh.distrib",
    "id-planted",
    "diff-planted",
    "lesspipe",
    "xdg-open",
]
FILES = {
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "one\n2\nthree\n",
    "data.csv": "name,size\nx,1\ny,2\n",
    "src/main.py": "import os\n\n# TODO: more\nclass A:\n    pass\n",
    "src/app/models.py": "x = 1\n",
    "README.md": "# Readme\n\nInstall.\n",
    "package.json": '{"name": "x", "version": "1.0", "scripts": {"test": "planted"}}\n',
    "with blank.txt": "x\n",
    # xargs splits this name into an existing name and a flag.
    "src/main.py -oout": "x\n",
    "names.txt": "a.txt\0b.txt\0",
    "script.sed": "w out\ne planted\n",
    "script.awk": 'BEGIN { system("planted") }\n',
    "Makefile": "all:\n\tplanted\n",
    # Names that are flags, as matches of a pattern.
    "-o": "x\n",
    "-delete": "x\n",
    "-i": "x\n",
    "-exec": "x\n",
    "--output=evil": "x\n",
    "--pre=planted": "x\n",
    "--compress-program=planted": "x\n",
    "-fprint": "x\n",
    "e": "x\n",
    "=": "x\n",
}
DOTFILES = dict.fromkeys(
    (
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".bash_aliases",
        ".kshrc",
        ".envrc",
        ".vimrc",
        ".exrc",
    ),
    "planted\n",
) | {
    ".ripgreprc": "--pre=planted\n",
    ".curlrc": 'output = "evil"\n',
    ".lesskey": "#env\nLESSOPEN = |planted %s\n",
    ".inputrc": '"a": "planted\\n"\n',
    ".jq": 'def keys: "evil";\n',
    ".npmrc": "script-shell=planted\n",
    ".config/fd/ignore": "*.py\n",
    ".config/git/attributes": "* diff=planted filter=planted\n",
}
ATTRIBUTES = "* diff=planted filter=planted merge=planted textconv=planted working-tree-encoding=UTF-8\n"
CONFIGURATION = """
[core]
    fsmonitor = planted
    pager = planted
    editor = planted
    hooksPath = hooks
    sshCommand = planted
[alias]
    st = !planted
    status = !planted
[diff]
    external = planted
[diff "planted"]
    textconv = planted
    command = planted
[filter "planted"]
    clean = planted
    smudge = planted
    process = planted
[pager]
    log = planted
    branch = planted
[log]
    showSignature = true
[gpg]
    program = planted
[credential]
    helper = planted
"""

OPERANDS = [
    "a.txt",
    "b.txt",
    "data.csv",
    "src",
    "src/main.py",
    "src/app",
    ".",
    "..",
    "./a.txt",
    "README.md",
    "package.json",
    "'with blank.txt'",
    "nowhere.txt",
    "src/../a.txt",
    "link",
    "*.txt",
    "src/*.py",
    "./*",
    "*",
    "src/**",
    "a.tx?",
    "[ab].txt",
    "{a,b}.txt",
    "-",
    "-- a.txt",
    "-- -o",
    "names.txt",
    ".git/config",
    ".git",
    "archive.tar.gz",
    "blob.gz",
    "HEAD",
    "HEAD~1",
    "HEAD^",
    "main",
    "HEAD:a.txt",
    "main..HEAD",
    '"$HOME"',
    "~",
    "$PWD/a.txt",
    "'*.py'",
    "TODO",
    "x",
    "1",
    "+%Y",
    "+5",
    "script.sed",
    "out",
    "evil",
]
FLAGS = {
    "ls": "-l -a -la -1 -t -R -d -i -h --color=always --sort=size -I '*.py' --hyperlink -Z",
    "cat": "-n -A -b -s --number -v -T",
    "head": "-n 2|-5|-c 10|-q|-v|--lines=2|-n -1".replace("|", " | "),
    "tail": "-n 2 | -5 | -c 10 | -n +2 | --bytes=3 | -q | +2",
    "wc": "-l -w -c -m -L --files0-from=names.txt --files0-from=-",
    "grep": "-n | -r | -i | -l | -c | -e x | -f a.txt | -E | -P | -v | -o | -A 2 | --include=*.py | -rn TODO | --color=always | -z | -D skip | -L | -q",
    "sort": "-n -r -u -k2 -t, -o out -oout --output=out --out=out --compress-program=planted --comp=planted -S 10 -T . -m -c -R --files0-from=names.txt -S1b --debug --parallel=2",
    "uniq": "-c -d -u -i -f 1 -D --group",
    "cut": "-d, -f1 -c1-3 --complement -b1 -s",
    "tr": "a b -d x -s a-z A-Z",
    "find": "-name '*.py' | -type f | -delete | -exec cat {} \\; | -exec planted {} \\; | -exec rm {} + | -execdir cat {} + | -print0 | -fprint out | -fls out | -fprintf out %p | -maxdepth 1 | -newer a.txt | -ok planted {} \\; | -printf '%p\\n' | -ls | -size +1k | -empty | -regex '.*' | ! -name x | \\( -name a -o -name b \\) | -files0-from names.txt | -prune | -L",
    "diff": "-u -r -q -y -l --paginate --to-file=a.txt -w -N --brief -D X --normal --color",
    "cmp": "-s -l -n 3",
    "comm": "-1 -2 -12 --check-order",
    "stat": "-c %n -L -f --printf=%s -t",
    "file": "-b -i -C -z -Z -m a.txt -f names.txt --mime -k -s -S -C -m src",
    "du": "-s -h -a -sh -d 1 --max-depth=1 --files0-from=names.txt -X a.txt --time",
    "df": "-h -i --output=source -t ext4",
    "tree": "-L 1 -a -o out --fromfile -d -J -R -H . -P '*.py'",
    "realpath": "-s -m -e --relative-to=.",
    "readlink": "-f -e -m -n",
    "basename": "-a -s .py",
    "dirname": "-z",
    "which": "-a",
    "type": "-a -t -P",
    "command": "-v ls | -V ls | ls | planted | -p ls",
    "xxd": "-l 8 | -c 4 | -r | -p | -s 2 | -i",
    "od": "-c -x -A d -N 4 -t x1",
    "strings": "-n 4 -a -e l",
    "hexdump": "-C -n 8 -e '1/1 \"%x\"'",
    "nl": "-ba -w 3",
    "tac": "-r -b -s x",
    "rev": "",
    "fold": "-w 10 -s",
    "fmt": "-w 20 -u",
    "paste": "-d, -s",
    "join": "-t, -1 1 -a 1",
    "column": "-t -s, -x -n",
    "expand": "-t 4",
    "base64": "-d -w 0 -i -D -o out --decode",
    "md5sum": "-c -b --check --tag",
    "sha256sum": "-c -b --status",
    "cksum": "-a md5 --tag",
    "seq": "1 5 -s, -w -f %g",
    "shuf": "-n 1 -o out -e a b -i 1-3 --output=out --random-source=a.txt",
    "split": "-l 1 -b 2 --filter=planted",
    "jq": ". .name -r -c 'keys' env input_filename -n --arg x y -f script.awk --slurpfile x package.json -L . --rawfile a a.txt 'import \"x\" as y; .' '$ENV' --seq -S",
    "sed": "-n | -i | -i.bak | --in-place | -e p | -n 2p | 's/one/1/' | 's/one/1/w out' | 's/.*/planted/e' | 'w out' | '1w out' | '1e planted' | e | 'r a.txt' | '$d' | '/two/,$p' | 's|a|b|g' | 's,a,b,w out' | -f script.sed | -E 's/(a)/\\1/' | --posix | '1!G;h;$!d' | ':a;N;$!ba;s/\\n/ /g' | y/abc/xyz/ | 'a x' | '{p;w out' | -s | -z | 's/[/]w out/x/' | 's/a\\/b/c/w out' | '1,2{p}' | 's/x/y/;w out' | 'p;e planted' | --expression='w out' | -ni | --null-data | '0~2p' | 'W out' | 's/a/b/mw out' | $'s/x/y/;t\\nw out' | $'b\\ne planted'",
    "awk": "'{print $1}' | -F, '{print $2}' | 'BEGIN{system(\"planted\")}' | '{print > \"out\"}' | '{print | \"planted\"}' | '\"planted\" | getline' | 'NR==2' | '/two/' | '{print $1, $2}' | -f script.awk | 'END{print NR}' | '{s+=$2} END {print s}' | -v x=1 'NR>1' | '!seen[$1]++' | 'length > 2' | '{print $1 > $2}' | '$2 > 1' | '{printf \"%s\" > \"out\"}' | '{print \"x\" > \"out\"}' | 'NR>1{print $1}' | '{print $1; system(\"planted\")}' | '{print -1 > \"out\"}'",
    "date": "+%Y -u -d tomorrow -s 2030-01-01 --set=now -r a.txt -R -I -f a.txt 010100002030 --debug",
    "hostname": "-f -F a.txt -i x -b -s",
    "id": "-u -n x",
    "uname": "-a -r",
    "ps": "aux -ef -o pid",
    "pgrep": "-f x -l",
    "nproc": "--all",
    "echo": "-e '\\n' | -n | $HOME | \"$(date)\" | `pwd` | a > out | $? | *",
    "printf": "'%s\\n' | -v x | %d",
    "test": "-f a.txt | -v x | -n x | a.txt -nt b.txt | -d src | 1 -eq 1",
    "[": "-f a.txt ] | -n x ] | -v 'a[$(planted)]' ]",
    "true": "",
    "cd": "src | .. | - | ~ | /tmp | $HOME",
    "pwd": "-P -L",
    "env": "planted -i ls -S 'ls x' FOO=1 ls -u HOME ls",
    "timeout": "5 cat a.txt | 5 planted | -s KILL 5 ls | 1 wc -l a.txt",
    "nice": "ls | -n 5 cat a.txt | planted",
    "xargs": "cat | -0 cat | planted | -n1 wc -l | rm | -I{} echo {} | sh -c planted | -a names.txt cat | sort | -0 sort | tree",
    "time": "ls | -p cat a.txt | -o out ls | planted",
    "tar": "tf archive.tar.gz | -tf archive.tar.gz | xf archive.tar.gz | tzf archive.tar.gz | -tf archive.tar.gz -I planted | cf out.tar a.txt | -tf archive.tar.gz --checkpoint=1 --checkpoint-action=exec=planted | -xf archive.tar.gz --to-command=planted",
    "zcat": "blob.gz",
    "gzip": "-l blob.gz | -t blob.gz | -dc blob.gz | -d blob.gz | a.txt",
    "unzip": "-l x.zip | x.zip | -p x.zip",
    "rg": "TODO | -n TODO | --pre planted x | --pre=planted x | -z x | --search-zip x | --hostname-bin planted x | --files | -l x | -g '*.py' x | --no-config x | -f a.txt | --sort path x | -r y x",
    "fd": ". | -e py | -x planted | -X planted | -t f | --exec planted | -H",
    "tee": "out | -a out",
    "touch": "a.txt | out",
    "rm": "a.txt | -rf src",
    "cp": "a.txt out",
    "mv": "a.txt out",
    "ln": "-s a.txt out",
    "mkdir": "out",
    "chmod": "+x a.txt",
    "dd": "if=a.txt of=out | if=a.txt",
    "man": "ls | -P planted ls",
    "less": "a.txt | +!planted a.txt",
    "vim": "-c '!planted' a.txt",
    "python3": '--version | -c \'open("out", "w")\' | script.py | -V',
    "node": "--version | -e 1",
    "perl": "-e 'print 1' | -v",
    "bash": "-c 'ls' | -c 'cat a.txt | wc -l' | -c planted | a.txt | --version | -lc ls | -ic ls | -ilc ls",
    "sh": "-c 'ls -l' | -c 'ls > out' | -c planted",
    "make": "all | -n",
    "planted": "",
    "./a.txt": "",
}
_COMMON = "--stat | -p | --oneline | -1 | -n 2 | --output=out | -o out | --ext-diff | --textconv | --no-textconv | --color | --format=%h | --format=%G? | -S x"
GIT = {
    "status": "-s | --short | --porcelain | -b | -v | -uno | --ignored | --column",
    "diff": f"{_COMMON} | --cached | --name-only | HEAD | HEAD~1 | main | -w | --no-index a.txt b.txt | --no-ext-diff | --submodule",
    "log": f"{_COMMON} | --graph | --all | --decorate | --follow a.txt | -L1,2:a.txt | --show-signature | --since=1.week | --author=x | --pretty=oneline",
    "show": f"{_COMMON} | HEAD | HEAD:a.txt | --show-signature | --name-only | HEAD~1",
    "blame": "a.txt | -L 1,2 a.txt | -w a.txt | --contents b.txt a.txt | -C a.txt",
    "branch": "-a | -v | --list | new | -d x | -D main | --show-current | -m y | --contains HEAD | --merged | -f main HEAD | --edit-description | --format='%(refname)'",
    "tag": "-l | v1 | -d v0 | --list 'v*' | -a v2 -m x | --contains HEAD | -n",
    "rev-parse": "HEAD | --show-toplevel | --git-dir | --abbrev-ref HEAD | --is-inside-work-tree",
    "ls-files": "-m | -o | -s | --others --exclude-standard | -d | -t | --eol",
    "ls-tree": "HEAD | -r HEAD | --name-only HEAD src",
    "cat-file": "-p HEAD | -t HEAD | -s HEAD:a.txt | --textconv HEAD:a.txt | --filters HEAD:a.txt",
    "rev-list": "HEAD | --count HEAD | --all | -n 1 HEAD",
    "merge-base": "HEAD main",
    "describe": "--always | --tags --always | --dirty --always | --all",
    "shortlog": "-sn HEAD | HEAD",
    "for-each-ref": "| --count=1 | --format='%(refname)'",
    "show-ref": "--heads | --tags",
    "count-objects": "-v",
    "check-ignore": "a.txt | -v a.txt",
    "grep": "TODO | -n TODO | -O TODO | -Oplanted TODO | --open-files-in-pager=planted TODO | -l x | --textconv x | -c x",
    "remote": "-v | get-url origin | add x y | show",
    "config": "--get user.name | -l | --list --show-origin | user.name y | core.pager planted | --edit",
    "stash": "list | show | push | pop | drop",
    "reflog": "| -1 | show | expire --all",
    "worktree": "list | add out",
    "add": "a.txt | .",
    "commit": "-m x | --allow-empty -m x",
    "checkout": "main | -b x",
    "gc": "",
    "st": "",
    "planted": "",
    "help": "log",
    "version": "",
}
_GLOBAL = (
    "",
    "",
    "",
    "",
    "--no-pager ",
    "-P ",
    "-C src ",
    "-p ",
    "-c core.pager=planted ",
    "--no-optional-locks ",
    "--exec-path=. ",
    "--git-dir=.git ",
)
_JOINS = (" | ", " | ", " && ", "; ", " || ", "\n")
_TAILS = (
    "",
    "",
    "",
    "",
    "",
    "",
    " 2>/dev/null",
    " 2>&1",
    " < a.txt",
    " > out",
    " >> a.txt",
    " > /dev/null",
    " &> out",
    " <<< x",
    " 2> out",
    " <> out",
)
_FRAMES = (
    "{}",
    "{}",
    "{}",
    "{}",
    "{}",
    "{}",
    "( {} )",
    "{{ {}; }}",
    "! {}",
    "if {}; then true; fi",
    "for i in 1 2; do {}; done",
    'echo "$({})"',
    "cat <( {} )",
    "[[ -n $({}) ]]",
    "f() {{ {}; }}; f",
    "x=$({})",
    "eval '{}'",
)


def commands(seed: int) -> Iterator[str]:
    """Lines of programs, flags and operands."""
    chance = random.Random(seed)

    def words(flags: str) -> list[str]:
        every = [
            each.strip()
            for each in (
                flags.split(" | ") if " | " in flags else re.findall(r"'[^']*'|\"[^\"]*\"|\S+", flags)
            )
        ]
        return every or [""]

    def one() -> str:
        if chance.random() < 0.25:
            name, flags = chance.choice([*GIT.items()])
            head = f"git {chance.choice(_GLOBAL)}{name}"
        else:
            head, flags = chance.choice([*FLAGS.items()])
        taken = chance.choices(words(flags), k=chance.choice((0, 1, 1, 1, 2, 2)))
        operands = chance.choices(OPERANDS, k=chance.choice((0, 0, 1, 1, 2)))
        text = " ".join(filter(None, [head, *taken, *operands]))
        return text + chance.choice(_TAILS)

    while True:
        count = chance.choice((1, 1, 1, 1, 1, 2, 3))
        line = chance.choice(_JOINS).join(one() for _ in range(count))
        frame = chance.choice(_FRAMES)
        yield line if "\n" in line or ("'" in line and "'" in frame) else frame.format(line)


@pytest.fixture
def tree(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A home with dotfiles, planted programs, and a repository of git with a plain or a hostile configuration."""
    # Not in a directory of pytest's, which another user cannot enter.
    with tempfile.TemporaryDirectory(prefix="anyshell-policy-") as directory:
        planted_tree(Path(directory).resolve(), hostile=request.param == "hostile")
        yield Path(directory).resolve()


def planted_tree(top: Path, *, hostile: bool) -> None:
    """Make the files of the tree."""
    home, project, planted = top / "home", top / "home" / "project", top / "planted"
    project.mkdir(parents=True)
    planted.mkdir()
    for name in PLANTED:
        program = planted / name
        program.write_text(f'#!/bin/sh\necho "$0 $*" >> {top}/ran\n', "utf-8")
        program.chmod(0o755)
    for name, text in DOTFILES.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    for name, text in FILES.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (project / "link").symlink_to("src")
    (project / "blob.gz").write_bytes(gzip.compress(b"x\n"))
    with tarfile.open(project / "archive.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("evil")
        entry.size = 2
        archive.addfile(entry, io.BytesIO(b"x\n"))
    environ = environment(top) | {"PATH": os.defpath}
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["commit", "-q", "-m", "one"],
        ["commit", "-q", "--allow-empty", "-m", "two"],
        ["tag", "v0"],
    ):
        git = [
            "git",
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@example.com",
            "-c",
            "core.attributesFile=/dev/null",
            *arguments,
        ]
        subprocess.run(git, cwd=project, env=environ, check=True, capture_output=True)
    (project / ".gitattributes").write_text(ATTRIBUTES, "utf-8")
    (project / "a.txt").write_text("one\ntwo, changed\nthree\n", "utf-8")  # gives status a change to report
    os.utime(project / "b.txt")
    if hostile:
        with (project / ".git" / "config").open("a", encoding="utf-8") as configuration:
            configuration.write(CONFIGURATION)
        (home / ".gitconfig").write_text(CONFIGURATION, "utf-8")
        hook = project / ".git" / "hooks" / "post-index-change"
        hook.write_text(f"#!/bin/sh\necho hook >> {top}/ran\n", "utf-8")
        hook.chmod(0o755)


def environment(top: Path) -> dict[str, str]:
    """The variables of the lines' environment."""
    path = f"{top}/planted:/usr/local/bin:/usr/bin:/bin"
    home = f"{top}/home"
    variables = {"PATH": path, "HOME": home, "LC_ALL": "C", "TERM": "dumb"}
    return variables | {"RIPGREP_CONFIG_PATH": f"{home}/none"}


def snapshot(top: Path) -> dict[str, tuple[object, ...]]:
    """Every path with its kind, mode, modification time and content; times of access are left out."""
    found: dict[str, tuple[object, ...]] = {}
    for directory, below, names in os.walk(top):
        for name in [*below, *names, "."]:
            path = Path(directory, name)
            info = path.lstat()
            content: object = None
            if stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(info.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[os.path.normpath(path)] = (info.st_mode, info.st_mtime_ns, content)
    return found


def confined(top: Path, argv: list[str]) -> list[str]:
    """The command in a sandbox with the tree as the only writable place."""
    wrapped = [
        bubblewrap(),
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    wrapped += [
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/var/tmp",
        "--bind",
        str(top),
        str(top),
        "--uid",
        "65534",
        "--gid",
        "65534",
        "--",
    ]
    return [*wrapped, *argv]


def set_by(preset: str) -> Mapping[str, str]:
    """The variables of commands under a preset."""
    variables = Policy.preset(preset).variables
    assert variables is not None
    return variables.set


def run(top: Path, lines: list[str], script: Path) -> subprocess.CompletedProcess[bytes]:
    """Run lines by one bash, each in a subshell of the project's directory."""
    script.write_bytes("".join(f"{line}\0" for line in lines).encode())
    each = """while IFS= read -r -d '' line; do (eval "$line") </dev/null >/dev/null 2>&1; done < "$0"; echo all"""
    argv = ["bash", "--norc", "--noprofile", "-c", each, str(script)]
    wrapped = confined(top, argv)
    # A process of root outside of a sandbox could write anywhere, so the process becomes the user that owns the tree.
    user = 65534 if wrapped == argv and os.geteuid() == 0 else None
    if user is not None:
        for path in [top, *top.rglob("*")]:
            os.chown(path, user, user, follow_symlinks=False)
    return subprocess.run(
        wrapped,
        cwd=top / "home" / "project",
        env={**environment(top), **set_by("read-only")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
        user=user,
        group=user,
        extra_groups=[] if user is not None else None,
    )


def allowed(top: Path, seed: int) -> list[str]:
    """The lines of a generator and of the corpus that `read-only` allows in a tree, without duplicates."""
    policy = Policy.preset("read-only")
    facts = LocalFacts(environment(top))
    for name in ("find", "resolve", "names", "git_runs"):  # nothing changes during the test
        setattr(facts, name, cache(getattr(facts, name)))
    project = str(top / "home" / "project")
    found: dict[str, None] = {}
    lines = commands(seed)
    texts = [next(lines) for _ in range(CANDIDATES)] + [
        case.text for case in EVERYDAY + HOSTILE if case.shell == "bash"
    ]
    for text in texts:
        if "sleep" not in text and policy.decide(text, cwd=project, facts=facts).action == "allow":
            found.setdefault(text)
    return [*found]


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("tree", ["plain", "hostile"], indirect=True)
def test_read_only_commands_can_change_nothing(tree: Path, request: pytest.FixtureRequest) -> None:
    lines = allowed(tree, seed=SEEDS[request.node.callspec.params["tree"]])
    assert len(lines) >= LEAST_ALLOWED
    # With a hostile configuration, git has only the commands that no configuration key affects.
    counts = {
        each: sum(line.startswith(f"git {each}") for line in lines)
        for each in ("status", "diff", "rev-parse")
    }
    assert counts["rev-parse"]
    assert bool(counts["status"]) is bool(counts["diff"]) is ("plain" in request.node.name)
    script = tree / "script"
    run(tree, [], script)  # writes the script, and gives the tree to the user that runs it
    ran = tree / "ran"
    before = snapshot(tree)
    result = run(tree, lines, script)
    assert result.stdout == b"all\n", result.stderr
    after = snapshot(tree)
    if ran.exists():
        pytest.fail(f"planted programs ran: {ran.read_text()}\n{culprits(tree, lines, script)}")
    for each in (before, after):
        each.pop(str(script)), each.pop(str(tree))
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    assert not changed, f"{changed}\n{culprits(tree, lines, script)}"


def culprits(tree: Path, lines: list[str], script: Path) -> list[str]:
    """The lines of a failure, found by running them in halves; a line with no effect on its second run is not found."""
    found: list[str] = []
    waiting = [lines]
    while waiting and len(found) < 5:
        part = waiting.pop()
        (tree / "ran").unlink(missing_ok=True)
        os.utime(tree / "home" / "project" / "b.txt")  # gives git a change to report once more
        before = snapshot(tree)
        run(tree, part, script)
        after = snapshot(tree)
        for each in (before, after):
            each.pop(str(script), None), each.pop(str(tree), None)
        if before == after:
            continue
        if len(part) == 1:
            found += part
        else:
            waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
    return found
