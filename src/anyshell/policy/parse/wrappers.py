"""Wrappers: programs that run a command that is given as their arguments."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from .options import OPTIONS, read_options
from .parsed import Argument
from .words import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import ShellKind
    from .options import Read
    from .parsed import Assignment, Redirection, Span


class Runs(NamedTuple):
    """A command that a wrapper runs: words, or a text for a shell.

    Attributes:
        words: The words of the command; empty if a text is given.
        variables: The variables that the wrapper sets for the command.
        text: The text for a shell; ``None`` for words.
        shell: The shell that runs the text.
        span: The span of the text; ``None`` for the span of the wrapper's own command.
        host: The host that the command runs on; empty for the wrapper's own host.
        unknown: A reason why the wrapper's command is not known; the wrapper may run more than the words and the text.
    """

    words: tuple[Argument, ...] = ()
    variables: tuple[Assignment, ...] = ()
    text: str | None = None
    shell: ShellKind = "sh"
    span: Span | None = None
    host: str = ""
    unknown: str = ""


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
    **dict.fromkeys(("sh", "dash", "ash"), "sh"),
    **dict.fromkeys(("bash", "rbash"), "bash"),
    **dict.fromkeys(("zsh", "rzsh"), "zsh"),
}
_SSHOPTIONS = names(
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
_REPLACED = re.compile(r"\{[#%/.]*\}|\{=|\{\d|\{[\w+-]+\}")


def runs(
    program: str, arguments: Sequence[Argument], shell: ShellKind, redirections: Sequence[Redirection] = ()
) -> Iterator[Runs]:
    """Yield the commands that a program runs, as far as its arguments show."""
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
    elif name in OPTIONS:
        read = read_options(name, arguments)
        if read.unknown:
            yield Runs(unknown=read.unknown)
        elif name in _READERS:
            yield from _READERS[name](read)
        elif "-x" in read.flags and name == "watch":
            yield Runs(read.rest)
        elif read.rest and not read.ends:
            table = names(OPTIONS[name])
            yield _joined(name, read.rest, "sh") if "joined" in table else Runs(read.rest, read.variables)
        elif "shell" in names(OPTIONS[name]) and not read.ends:
            yield Runs(unknown=f"{name} without a command is a shell")


def _joined(program: str, words: Sequence[Argument], shell: ShellKind, host: str = "") -> Runs:
    """Join words to a text that the program runs."""
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
    read = read_options("shell", words)
    if _SHELLS[name] == "zsh" and any(each.text.startswith("+f") for each in arguments):
        yield Runs(unknown=f"+f has {name} run the user's own start-up files")
    if read.unknown:
        yield Runs(unknown=read.unknown)
    elif "-c" in read.flags:
        yield _text(f"{name} -c", read.rest[0] if read.rest else None, _SHELLS[name])
    elif not read.rest and not read.ends:
        bodies = [
            each.target for each in redirections if each.operator.startswith("<<") and each.target.literal
        ]
        inner = _text(name, bodies[0], _SHELLS[name]) if bodies else Runs()
        yield inner._replace(
            unknown=f"{name} reads commands from its input",
        )


def _xargs(read: Read) -> Iterator[Runs]:
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


def _parallel(read: Read) -> Iterator[Runs]:
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
        yield _joined("parallel", plain, "bash")._replace(
            unknown="parallel runs a text with its arguments in it"
        )


def _ssh(read: Read) -> Iterator[Runs]:
    if read.ends or not read.rest:
        return
    host = read.rest[0]
    behind = read_options("ssh", read.rest[1:]) if len(read.rest) > 1 else None
    option = [each.values["-o"] for each in (read, behind) if each is not None and "-o" in each.values]
    if not host.literal and re.match(r'"?[$`]', host.text):
        yield Runs(unknown="ssh to a host that is not literal: it may be an option")
    elif behind is not None and behind.unknown:
        yield Runs(host=host.text, unknown=behind.unknown)
    elif any(
        not each.literal or re.split(r"[ =]", each.text)[0].lower() not in _SSHOPTIONS for each in option
    ):
        yield Runs(host=host.text, unknown="ssh with an option that may run a program")
    elif behind is None or not behind.rest:
        yield Runs(host=host.text, unknown="ssh without a command reads commands from its input")
    else:
        yield _joined("ssh", behind.rest, "sh", host.text)


def _su(read: Read) -> Iterator[Runs]:
    text = read.values.get("-c", read.values.get("--command"))
    if text is not None:
        yield _text("su -c", text)
        return
    if "-u" in read.flags and read.rest:  # runuser -u USER COMMAND
        yield Runs(read.rest)
        return
    behind = read_options("su", read.rest[1:])
    yield _text("su", behind.values.get("-c", behind.values.get("--command")) if not behind.unknown else None)


def _script(read: Read) -> Iterator[Runs]:
    text = read.values.get("-c", read.values.get("--command"))
    if text is not None:
        yield _text("script -c", text)
    elif len(read.rest) > 1:
        yield Runs(read.rest[1:])
    else:
        yield Runs(unknown="script without a command is a shell")


def _flock(read: Read) -> Iterator[Runs]:
    if read.rest and read.rest[0].text in ("-c", "--command"):
        yield _text("flock -c", read.rest[1] if len(read.rest) > 1 else None)
    elif read.rest:
        yield Runs(read.rest)


def _git(read: Read) -> Iterator[Runs]:
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
    """Yield the commands in the expressions of find, or after an option of fd."""
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
