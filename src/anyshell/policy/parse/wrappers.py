"""Programs that run a command which their arguments are: a table, and one function that reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from .parsed import Argument, Assignment
from .words import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import ShellKind
    from .parsed import Redirection, Span


@dataclass(frozen=True, slots=True)
class Runs:
    """A command that a program is given to run: words, or a text for a shell.

    Attributes:
        text: The text; ``None`` for words.
        span: Where the text is written; ``None`` for where the program is.
        host: The host that it runs on.
        unknown: Why it is not known what the program runs; it may run more than the words and the text.
    """

    words: tuple[Argument, ...] = ()
    variables: tuple[Assignment, ...] = ()
    text: str | None = None
    shell: ShellKind = "sh"
    span: Span | None = None
    host: str = ""
    unknown: str = ""


# Options of a program, and what follows them. -a is a flag, and -a: takes a value, -a? one within its own word; --a= takes a
# value within its word or behind it, --a may have one within; -# is a number; with ! nothing is run. Behind the options there
# may be =, for assignments to variables, a number of operands, and what the rest is: words of a command (the default), joined
# to a text for sh, or `shell`: words, without which it is a shell that reads its input.
_OPTIONS = {
    "sudo": "-A -b -B -E -H -k -K -l! -n -P -S -v -V! -u: -g: -h: -p: -C: -D: -r: -t: -T: -U: --user= --group= --host= --prompt= "
    "--chdir= --non-interactive --preserve-env --background --set-home --stdin --validate --list! --version! --reset-timestamp =",
    "doas": "-L! -n -u:",
    "pkexec": "--user= --disable-internal-agent --version!",
    "env": "-i -0 -v -u: -C: --ignore-environment --null --unset= --chdir= --debug --version! --help! =",
    "nohup": "--version! --help!",
    "setsid": "-c -f -w --ctty --fork --wait",
    "timeout": "-f -k: -p -s: -v --foreground --kill-after= --preserve-status --signal= --verbose --version! --help! 1",
    "nice": "-n: -# --adjustment= --version! --help!",
    "ionice": "-c: -n: -t --class= --classdata= --ignore",
    "chrt": "-a -b -d -f -i -m! -o -r -R -v -T: -P: -D: --batch --fifo --idle --other --rr --max! 1",
    "taskset": "-a -c --cpu-list --all-tasks 1",
    "stdbuf": "-i: -o: -e: --input= --output= --error=",
    "time": "-a -f: -o: -p -q -v --append --format= --output= --portability --quiet --verbose --version! --help! -l -h",
    "command": "-p -v! -V!",
    "builtin": "",
    "exec": "-c -l -a:",
    "chroot": "--groups= --userspec= --skip-chdir 1 shell",
    "unshare": "-c -f -i -m -n -p -r -u -C -T -U --fork --ipc --kill-child --map-auto --map-root-user --mount --mount-proc --net "
    "--pid --user --uts --cgroup --time shell",
    "nsenter": "-a -e -t: -m? -u? -i? -n? -p? -C? -U? -T? -F --all --target= --mount --uts --ipc --net --pid --cgroup --user shell",
    "setarch": "-R -v -3 --addr-no-randomize 1 shell",
    "linux32": "-R shell",
    "linux64": "-R shell",
    "strace": "-a: -A -b: -c -C -d -D -e: -E: -f -F -h! -i -I: -k -n -N -O: -P: -q -r -s: -S: -t -T -u: -U: -v -V! -w -x -X: -y -Y "
    "-z -Z --follow-forks --summary-only",
    "ltrace": "-a: -b -c -C -e: -f -i -L -l: -n: -r -s: -S -t -T -u: -V! -x:",
    "busybox": "--list! --help!",
    "toybox": "--help!",
    "fakeroot": "-u",
    "faketime": "-f -m -p: 1",
    "chronic": "-e -v",
    "unbuffer": "-p",
    "caffeinate": "-d -i -m -s -u -t: -w:",
    "xvfb-run": "-a -e: -f: -l -n: -p: -s: -w: --auto-servernum --error-file= --listen-tcp --server-args= --server-num= --wait=",
    "dbus-run-session": "",
    "firejail": "",
    "setpriv": "",
    "watch": "-b -c -d -e -g -n: -p -q: -r -t -w --beep --color --differences --errexit --chgexit --interval= --precise --no-title "
    "--no-wrap --help! --version! joined",
    "uv run": "-q -v --frozen --locked --no-sync --isolated --active --no-dev --all-extras --quiet --verbose --group= --extra= "
    "--with= --python= -p: --directory= --project= --package= --no-project --env-file= --only-group= --only-dev --no-build "
    "--no-default-groups --no-editable --managed-python --refresh -m! --module! -s! --script!",
    "poetry run": "",
    "pipenv run": "",
    "pdm run": "-s",
    "rye run": "",
    "bundle exec": "--keep-file-descriptors",
    "direnv exec": "1",
    "bisect run": "",
    "docker exec": "-d -e: -i -t -u: -w: --detach --env= --env-file= --interactive --privileged --tty --user= --workdir= 1",
    "podman exec": "-d -e: -i -t -u: -w: -l --detach --env= --interactive --privileged --tty --user= --workdir= 1",
    "kubectl exec": "-c: -i -n: -q -t --container= --namespace= --stdin --tty --quiet 1",
    "flock": "-e -E: -F -n -o -s -u -v -w: -x --close --conflict-exit-code= --exclusive --no-fork --nonblock --nb --shared "
    "--timeout= --unlock --verbose --wait= 1",
    "xargs": "-0 -a: -d: -e? -E: -i? -I: -J: -l? -L: -n: -o -p -P: -r -R: -s: -S: -t -x --arg-file= --delimiter= --eof --exit "
    "--interactive --max-args= --max-chars= --max-lines --max-procs= --no-run-if-empty --null --open-tty --process-slot-var= "
    "--replace --show-limits! --verbose --version! --help!",
    "parallel": "-0 -a: -d: -I: -j: -k -L: -m -n: -N: -P: -q -r -t -u -v -X --bar --citation! --colsep= --delay= --dry-run --eta "
    "--group --halt= --jobs= --joblog= --keep-order --line-buffer --lb --linebuffer --max-args= --no-notice --null --progress "
    "--results= --retries= --tag --timeout= --ungroup --verbose --will-cite --version! --help! joined",
    "ssh": "-4 -6 -A -a -C -f -G! -g -K -k -M -N! -n -q -s! -T -t -V! -v -W: -X -x -Y -y -B: -b: -c: -D: -e: -i: -J: -L: -l: -m: "
    "-o: -p: -Q! -R: -w:",
    "su": "-c: -f -g: -G: -l -m -p -P --command= --fast --group= --login --preserve-environment --pty --session-command=",
    "runuser": "-c: -f -g: -G: -l -m -p -P -u: --command= --fast --group= --login --preserve-environment --pty --user=",
    "script": "-a -c: -e -E: -f -q -t? --append --command= --flush --quiet --return --echo=",
    "git": "-C: -c: -p -P --bare --git-dir= --glob-pathspecs --help! --icase-pathspecs --literal-pathspecs --namespace= --no-lazy-fetch "
    "--no-optional-locks --no-pager --no-replace-objects --noglob-pathspecs --paginate --version! --work-tree= -h! -v! "
    "--exec-path! --html-path! --man-path! --info-path!",
    "shell": "-a -b -e -f -h -i -l -m -n -u -v -x -B -C -E -H -P -T -c -o: -r --login --noprofile --norc --posix --restricted "
    "--verbose --version! --help!",
}
_ALIASES = {
    "gtimeout": "timeout",
    "gnice": "nice",
    "gxargs": "xargs",
    "gstdbuf": "stdbuf",
    "genv": "env",
    "nerdctl exec": "docker exec",
}
_SUBCOMMANDS = names("uv poetry pipenv pdm rye bundle direnv docker podman nerdctl kubectl")
_SHELLS: dict[str, ShellKind] = {
    **dict.fromkeys(("sh", "dash", "ash", "ksh", "mksh", "posh", "yash", "rksh"), "sh"),
    **dict.fromkeys(("bash", "rbash"), "bash"),
    **dict.fromkeys(("zsh", "rzsh"), "zsh"),
}
_SSH_OPTIONS = names(
    "stricthostkeychecking connecttimeout connectionattempts batchmode userknownhostsfile globalknownhostsfile loglevel port user "
    "serveraliveinterval serveralivecountmax identitiesonly identityfile hostname compression requesttty passwordauthentication "
    "preferredauthentications pubkeyauthentication forwardagent exitonforwardfailure addressfamily tcpkeepalive checkhostip"
)
_GIT_KEYS = re.compile(
    r"user\.(?:name|email)|color\.\w+|advice\.\w+|safe\.directory|init\.defaultbranch|(?:commit|tag)\.gpgsign|protocol\.version"
    r"|core\.(?:quotepath|autocrlf|longpaths|filemode|ignorecase|symlinks|abbrev|compression|precomposeunicode)"
    r"|(?:http|gc|pack|fetch|push|pull|log|diff|merge|rebase)\.(?!tool|external|.*(?:cmd|command|program|helper|driver))[a-z]+",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_REPLACED = re.compile(r"\{[#%/.]*\}|\{=|\{\d|\{[\w+-]+\}")


class _Read(NamedTuple):
    """What the options of a program were."""

    rest: tuple[Argument, ...]
    values: dict[str, Argument]
    flags: frozenset[str]
    variables: tuple[Assignment, ...]
    ends: bool  # nothing is run
    unknown: str


def _options(program: str, table: str, arguments: Sequence[Argument]) -> _Read:
    """Read the options of a program by its table. What is not in the table is unknown: it may take the next word."""
    known = names(table)
    values: dict[str, Argument] = {}
    flags: set[str] = set()
    variables: list[Assignment] = []
    ends, position, unknown = False, 0, ""
    operands = max((int(each) for each in known if each.isdigit()), default=0)
    while position < len(arguments) and not unknown:
        word = arguments[position]
        text = word.text
        assigned = _ASSIGNED.fullmatch(text) if "=" in known else None
        if assigned and (word.single):
            start = word.span[0] + len(assigned[1]) + 1
            variables.append(
                Assignment(
                    assigned[1], Argument(assigned[2], word.literal, (min(start, word.span[1]), word.span[1]))
                )
            )
        elif not word.literal and not (word.single and re.match(r"--[\w-]+=", text)):
            if not re.match(r"\"?[\w./~+@:%]", text):
                unknown = f"{program} with a word that may be an option: {text[:40]}"
            break
        elif text == "--":
            position += 1
            break
        elif text == "-" and program in ("env", "su", "runuser"):
            flags.add("-")
        elif not text.startswith("-") or text == "-":
            break
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            if f"{name}=" in known:
                if not equals:
                    position += 1
                    if position >= len(arguments) or not (arguments[position].single):
                        unknown = f"{program} {name} without a value that is one word"
                        break
                values[name] = Argument(value, word.literal, word.span) if equals else arguments[position]
            elif name in known or f"{name}!" in known:
                flags.add(name)
                ends = ends or f"{name}!" in known
                if equals:
                    values[name] = Argument(value, word.literal, word.span)
            else:
                unknown = f"{program} with the option {name[:40]}, which is not known"
        elif "-#" in known and text[1:].lstrip("+-").isdigit():
            flags.add(text)
        else:
            position, ended, unknown = _letters(program, known, arguments, position, values, flags)
            ends = ends or ended
        position += 1
    if not unknown and position < len(arguments) and operands:
        taken = arguments[position : position + operands]
        if not all(each.single for each in taken):
            unknown = f"{program} with an operand that may be several words"
        position += operands
        if position < len(arguments) and arguments[position].text == "--" and program == "kubectl exec":
            position += 1
    return _Read(tuple(arguments[position:]), values, frozenset(flags), tuple(variables), ends, unknown)


def _letters(
    program: str,
    known: frozenset[str],
    arguments: Sequence[Argument],
    position: int,
    values: dict[str, Argument],
    flags: set[str],
) -> tuple[int, bool, str]:
    """Read options of one letter, of which several may be in a word; the last may have its value there, or behind it."""
    word, ends = arguments[position], False
    for place, letter in enumerate(word.text[1:], 2):
        option = f"-{letter}"
        value = word.text[place:]
        if option in known or f"{option}!" in known:
            flags.add(option)
            ends = ends or f"{option}!" in known
        elif f"{option}?" in known:
            flags.add(option)
            values[option] = Argument(value, True, word.span)
            break
        elif f"{option}:" in known:
            flags.add(option)
            if not value:
                position += 1
                if position >= len(arguments) or not (arguments[position].single):
                    return position, ends, f"{program} {option} without a value that is one word"
            values[option] = Argument(value, True, word.span) if value else arguments[position]
            break
        else:
            return position, ends, f"{program} with the option {option}, which is not known"
    return position, ends, ""


def runs(
    program: str, arguments: Sequence[Argument], shell: ShellKind, redirections: Sequence[Redirection] = ()
) -> Iterator[Runs]:
    """What a program runs, as far as its arguments say it."""
    name = program.rpartition("/")[2]
    name = _ALIASES.get(name, name)
    if name in _SUBCOMMANDS and arguments and arguments[0].literal:
        name, arguments = f"{name} {arguments[0].text}", arguments[1:]
        name = _ALIASES.get(name, name)
    if name in ("find", "gfind", "fd", "fdfind"):
        yield from _find(name, arguments)
    elif name == "eval":
        yield _joined("eval", arguments[1:] if arguments and arguments[0].text == "--" else arguments, shell)
    elif name in _SHELLS:
        yield from _shell(name, arguments, redirections)
    elif name in _OPTIONS:
        read = _options(name, _OPTIONS[name], arguments)
        if read.unknown:
            yield Runs(unknown=read.unknown)
        elif name in _READERS:
            yield from _READERS[name](read)
        elif "-x" in read.flags and name == "watch":
            yield Runs(read.rest)
        elif read.rest and not read.ends:
            table = names(_OPTIONS[name])
            yield _joined(name, read.rest, "sh") if "joined" in table else Runs(read.rest, read.variables)
        elif "shell" in names(_OPTIONS[name]) and not read.ends:
            yield Runs(unknown=f"{name} without a command is a shell")


def _joined(program: str, words: Sequence[Argument], shell: ShellKind, host: str = "") -> Runs:
    """Words that are joined to a text."""
    if not all(each.literal for each in words):
        return Runs(host=host, unknown=f"{program} runs a text that is not literal")
    if not words:
        return Runs()
    text = " ".join(each.text for each in words)
    return Runs(text=text, shell=shell, span=(words[0].span[0], words[-1].span[1]), host=host)


def _text(program: str, word: Argument | None, shell: ShellKind = "sh") -> Runs:
    if word is None:
        return Runs(unknown=f"{program} reads commands from its input")
    return _joined(program, (word,), shell)


def _shell(name: str, arguments: Sequence[Argument], redirections: Sequence[Redirection]) -> Iterator[Runs]:
    words = [
        each if each.text[:1] != "+" or not each.literal else replace(each, text=f"-{each.text[1:]}")
        for each in arguments
    ]
    read = _options(name, _OPTIONS["shell"], words)
    if read.unknown:
        yield Runs(unknown=read.unknown)
    elif "-c" in read.flags:
        yield _text(f"{name} -c", read.rest[0] if read.rest else None, _SHELLS[name])
    elif not read.rest and not read.ends:
        bodies = [
            each.target for each in redirections if each.operator.startswith("<<") and each.target.literal
        ]
        yield replace(
            _text(name, bodies[0], _SHELLS[name]) if bodies else Runs(),
            unknown=f"{name} reads commands from its input",
        )


def _xargs(read: _Read) -> Iterator[Runs]:
    given = Argument("{}", False, read.rest[0].span) if read.rest else None
    if read.ends or given is None:
        return
    mark = next((read.values[each] for each in ("-I", "-J", "--replace", "-i") if each in read.values), None)
    if mark is None and "--replace" not in read.flags:
        yield Runs((*read.rest, given))
        return
    sign = mark.text if mark is not None and mark.text else "{}"
    literal = mark is None or mark.literal
    yield Runs(
        tuple(replace(each, literal=each.literal and literal and sign not in each.text) for each in read.rest)
    )


def _parallel(read: _Read) -> Iterator[Runs]:
    words = list(read.rest)
    for place, each in enumerate(words):
        if each.text.startswith(":::"):
            words = words[:place]
            break
    if read.ends:
        return
    if not words:
        yield Runs(unknown="parallel reads commands from its input")
        return
    sign = read.values["-I"].text if "-I" in read.values else "{}"
    plain = [each for each in words if each.literal or not _REPLACED.search(each.text)]
    if any("{=" in each.text for each in words) or not plain or plain[0] is not words[0]:
        yield Runs(unknown="parallel runs a text that is not literal")
    elif all(
        re.fullmatch(r"[\w./:=,@%+-]+", each.text) or sign in each.text or _REPLACED.search(each.text)
        for each in words
    ):
        yield Runs(
            (
                *(replace(each, literal=each in plain and sign not in each.text) for each in words),
                Argument("{}", False, words[-1].span),
            )
        )
    else:
        yield replace(
            _joined("parallel", plain, "bash"), unknown="parallel runs a text with its arguments in it"
        )


def _ssh(read: _Read) -> Iterator[Runs]:
    if read.ends or not read.rest:
        return
    host = read.rest[0]
    behind = _options("ssh", _OPTIONS["ssh"], read.rest[1:]) if len(read.rest) > 1 else None
    option = [each.values["-o"] for each in (read, behind) if each is not None and "-o" in each.values]
    if not host.literal and re.match(r'"?[$`]', host.text):
        yield Runs(unknown="ssh to a host that is not literal: it may be an option")
    elif behind is not None and behind.unknown:
        yield Runs(host=host.text, unknown=behind.unknown)
    elif any(
        not each.literal or re.split(r"[ =]", each.text)[0].lower() not in _SSH_OPTIONS for each in option
    ):
        yield Runs(host=host.text, unknown="ssh with an option that may run a program")
    elif behind is None or not behind.rest:
        yield Runs(host=host.text, unknown="ssh without a command reads commands from its input")
    else:
        yield _joined("ssh", behind.rest, "sh", host.text)


def _su(read: _Read) -> Iterator[Runs]:
    text = read.values.get("-c", read.values.get("--command"))
    if text is not None:
        yield _text("su -c", text)
        return
    if "-u" in read.flags and read.rest:  # runuser -u USER COMMAND
        yield Runs(read.rest)
        return
    behind = _options("su", _OPTIONS["su"], read.rest[1:])
    yield _text("su", behind.values.get("-c", behind.values.get("--command")) if not behind.unknown else None)


def _script(read: _Read) -> Iterator[Runs]:
    text = read.values.get("-c", read.values.get("--command"))
    if text is not None:
        yield _text("script -c", text)
    elif len(read.rest) > 1:
        yield Runs(read.rest[1:])
    else:
        yield Runs(unknown="script without a command is a shell")


def _flock(read: _Read) -> Iterator[Runs]:
    if read.rest and read.rest[0].text in ("-c", "--command"):
        yield _text("flock -c", read.rest[1] if len(read.rest) > 1 else None)
    elif read.rest:
        yield Runs(read.rest)


def _git(read: _Read) -> Iterator[Runs]:
    given = read.values.get("-c")
    if given is not None:
        key, _, value = given.text.partition("=")
        if key.lower().startswith("alias.") and value.startswith("!") and given.literal:
            yield Runs(text=value[1:], span=given.span, unknown="git runs an alias that it is given")
        elif not given.literal or not _GIT_KEYS.fullmatch(key):
            yield Runs(unknown=f"git -c {key[:40]} may run a program")
    words = [each.text for each in read.rest[:2]]
    if words == ["bisect", "run"]:
        yield Runs(read.rest[2:])
    elif words == ["submodule", "foreach"]:
        rest = read.rest[2:]
        while rest and rest[0].text in ("--recursive", "--quiet", "-q"):
            rest = rest[1:]
        yield _joined("git submodule foreach", rest, "sh")
    elif words[:1] == ["rebase"]:
        for place, each in enumerate(read.rest):
            if each.text in ("-x", "--exec"):
                yield _text("git rebase -x", read.rest[place + 1] if place + 1 < len(read.rest) else None)
            elif each.text.startswith(("-x", "--exe")):
                yield Runs(unknown="git rebase -x runs a text")


def _find(name: str, arguments: Sequence[Argument]) -> Iterator[Runs]:
    """Commands within the expressions of find, or behind an option of fd."""
    found = name in ("find", "gfind")
    begins = names("-exec -execdir -ok -okdir") if found else names("-x -X --exec --exec-batch")
    words = iter(arguments)
    for each in words:
        if each.literal and each.text in begins:
            command: list[Argument] = []
            for word in words:
                if (word.literal and word.text == ";") or (
                    found and word.text == "+" and command and command[-1].text == "{}"
                ):
                    break
                command.append(replace(word, literal=word.literal and not _REPLACED.search(word.text)))
            if not found and not any(_REPLACED.search(word.text) for word in command):
                command.append(Argument("{}", False, each.span))
            yield Runs(tuple(command))
        elif not each.single and re.search(r"[$`]", each.text):
            yield Runs(unknown=f"{name} with a word that may be several: {each.text[:40]}")
        elif not found and each.text.startswith(("-x", "-X", "--exec")):
            yield Runs(unknown=f"{name} {each.text[:40]} runs a command")


_READERS = {
    "xargs": _xargs,
    "parallel": _parallel,
    "ssh": _ssh,
    "su": _su,
    "runuser": _su,
    "script": _script,
    "flock": _flock,
    "git": _git,
}
