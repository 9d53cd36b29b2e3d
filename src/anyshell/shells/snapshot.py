r"""The text by which a shell reports its user's own set-up, and the text that recreates the set-up in another shell.

The set-up is reported in *records* on a descriptor of their own: three texts each, every text ended by a NUL byte. A first
set of records is written before the user's file is read, so only the file's changes count.

A startup file may define functions and aliases with any name, so no name here is trusted. A text is parsed as a whole before
the file is read, so no alias gets into it. Then, in a subshell of their own, bash and sh are made POSIX shells, which look
for special builtins before functions, and forget the functions that would interfere. In the text that recreates the set-up,
each of anyshell's words is quoted, so it is not an alias, and stands behind ``builtin``, so it is not a function: a function named
``builtin`` is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from .posix import BASH, SH, ZSH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anyshell._types import ShellKind

    from .posix import Shell

SHORTEST_SECRET = 8
"""Characters of an exported value, at least, that is looked for in functions and aliases: a shorter one is in any text."""

_FD = 8  # no bound
"""The descriptor of the records: every shell knows it, and a server's command inherits other descriptors."""

RESERVED = "builtin"
"""The one function that no set-up has: by this name, anyshell's own words reach the shell's builtins."""

# Options that would disturb a shell that is not interactive: it edits no line, keeps no history, reports no jobs and shows
# no prompt; or options that would put lines into the output that no command has written.
_LEFT_OUT = frozenset(
    {"emacs", "vi", "history", "histexpand", "ignoreeof", "interactive", "monitor", "notify", "stdin"}
    | {"nolog", "debug", "noexec", "onecmd", "privileged", "verbose", "xtrace"}
    # bash's own
    | {"expand_aliases", "login_shell", "restricted_shell", "checkjobs", "checkwinsize", "cmdhist"}
    | {"complete_fullquote", "histappend", "histreedit", "histverify", "lithist", "hostcomplete", "huponexit"}
    | {"mailwarn", "progcomp", "progcomp_alias", "promptvars", "syslog_history", "no_empty_cmd_completion"}
    # zsh's own
    | {"exec", "login", "restricted", "shinstdin", "singlecommand", "zle", "rcs", "globalrcs", "aliases"}
    | {"promptcr", "promptsp", "promptsubst", "promptbang", "promptpercent", "transientrprompt", "hup"}
    | {"checkjobs", "checkrunningjobs", "bgnice", "longlistjobs", "autocontinue", "correct", "correctall"}
    | {"mailwarning", "beep", "histbeep", "listbeep", "singlelinezle"}
)

_LAST = frozenset({"errexit", "errreturn", "unset", "allexport", "warncreateglobal", "warnnestedvar"})
"""Options of zsh that would end the shell while it reads the rest, or change more than the written values."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or an alias.

    Attributes:
        kind: ``function`` or ``alias``, the word for a person.
        name: The name of the definition.
        text: The value, as the shell itself writes it.
        flag: A further property: an exported function's ``x``; ``-g`` and ``-s`` of zsh's aliases.
    """

    kind: str
    name: str
    text: str
    flag: str = ""


@dataclass(frozen=True, slots=True)
class SetUp:
    """The state of a shell after its startup file.

    Attributes:
        options: The options that the file has changed, as ``(command, name, on)``.
        path: The PATH of the shell.
        definitions: Functions, then aliases.
        values: Values of exported variables, line by line. A value may be a secret.
        files: The user's files, each with its result: ``returned N`` and ``ended N`` (the whole shell), with an exit code,
            ``unreadable``, ``absent``.
    """

    options: tuple[tuple[str, str, bool], ...]
    path: str
    definitions: tuple[Definition, ...]
    values: frozenset[str]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The texts by which a kind of shell reports its set-up.

    Attributes:
        shell: The shell that quotes.
        options: The options that make the shell read commands as for a person, without any startup file.
        tell: A function's body that writes the records.
        read: A text that reads the user's files, given their paths or directories.
    """

    shell: Shell
    options: tuple[str, ...]
    tell: str
    read: str

    def capture(self, path: str, places: Sequence[str]) -> tuple[str, ...]:
        """Return the argument list that reports the user's set-up on stdout, and prints nothing else.

        Args:
            path: The shell.
            places: The user's file; for zsh the directories of ``.zshenv`` and ``.zshrc``.
        """
        text = f"""{{
anyshell_tell() {{
{self.tell}
}}
ANYSHELL_FILE= ANYSHELL_STATUS= ANYSHELL_READ= HISTFILE= ANYSHELL_ENV=$(command -pv env)
anyshell_tell
trap 'ANYSHELL_STATUS="ended $?" HISTFILE=; case $ANYSHELL_READ in "") anyshell_tell;; esac' EXIT
{self.read}
HISTFILE=
anyshell_tell
ANYSHELL_READ=1
}}"""
        # A shell without a terminal complains when it starts, so another shell redirects its output.
        return (
            *("/bin/sh", "-c", f'exec "$@" {_FD}>&1 >/dev/null 2>&1', "sh"),
            *(path, *self.options, "-c", text, self.shell.kind, *places),
        )

    def understand(self, told: bytes) -> SetUp | None:
        """Parse a report; return ``None`` for an incomplete report."""
        states = list(_states(told))
        if len(states) < 2:
            return None
        before, after = states[:2]
        if not after.environment:
            return None  # the values that must not stand in the definitions are not known
        known = {*before.functions, *before.aliases}
        changed = []
        for command in dict.fromkeys(key for key, _ in after.options):
            was, now = before.on(command), after.on(command)
            changed += [(command, name, name in now) for name in sorted((was ^ now) - _LEFT_OUT)]
        return SetUp(
            options=tuple(changed),
            path=after.path,
            definitions=tuple(each for each in (*after.functions, *after.aliases) if each not in known),
            values=_values(after.environment),
            files=after.files,
        )

    def recreate(self, set_up: SetUp) -> str:
        """Return the text that gives a fresh shell of the same kind the set-up. The text never fails as a whole.

        Functions come before the aliases, which would otherwise be expanded in them. Options that end a shell after an error
        come last.
        """
        return "".join(f"{line}\n" for line in self._lines(set_up))

    def _lines(self, set_up: SetUp) -> Iterator[str]:
        quote, builtin = self.shell.quote, self.shell.builtin
        early = [option for option in set_up.options if self._is_early(option)]
        yield from (self._option(*option) for option in early)
        if set_up.path:
            yield f"{builtin('export')} PATH={quote(set_up.path)}"
        for each in set_up.definitions:
            if each.kind == "function":
                # By eval: a function that this version of the shell cannot read back harms no other.
                yield f"{builtin('eval')} {quote(each.text)}"
                if each.flag:
                    yield f"{builtin('export')} -f {quote(each.name)}"
        aliases = [each for each in set_up.definitions if each.kind == "alias"]
        if aliases:
            yield "{"  # parsed as a whole, before the first alias is defined
            yield from map(self._alias, aliases)
            if self.shell is BASH:
                yield f"{builtin('shopt')} -s expand_aliases"
            yield "}"
        yield from (self._option(*option) for option in set_up.options if option not in early)

    def _is_early(self, option: tuple[str, str, bool]) -> bool:
        """Return whether functions may need an option to be parsed. Other options would rather interfere with the parsing."""
        command, name, _ = option
        return command == "shopt" or (self.shell is ZSH and name not in _LAST)

    def _option(self, command: str, name: str, on: bool) -> str:
        on_off = ("-s", "-u") if command == "shopt" else ("-o", "+o")
        return f"{self.shell.builtin(command)} {on_off[not on]} {name}"

    def _alias(self, alias: Definition) -> str:
        words = [self.shell.builtin("alias"), alias.flag, "" if self.shell is SH else "--"]
        return " ".join(filter(None, words)) + f" {self.shell.quote(alias.name)}={alias.text}"


class _State:
    """The state of the shell at one moment."""

    def __init__(self) -> None:
        self.options: list[tuple[str, str]] = []
        self.path = ""
        self.environment = ""
        self.functions: list[Definition] = []
        self.aliases: list[Definition] = []
        self.files: dict[str, str] = {}

    def on(self, command: str) -> set[str]:
        return {name for key, names in self.options if key == command for name in names.split()}

    def add(self, kind: str, name: str, text: str) -> None:
        if kind == "options":
            self.options.append((name, text))
        elif kind == "path":
            self.path = text
        elif kind == "environment":
            self.environment = text
        elif kind == "file" and name:
            self.files[name] = text
        elif kind == "aliases":
            self.aliases += _aliases(text)
        elif kind.startswith("function"):
            self.functions.append(Definition("function", name, text.strip("\n"), kind[len("function ") :]))
        elif kind.startswith("alias"):
            self.aliases.append(Definition("alias", name, ZSH.quote(text), kind[len("alias ") :]))


def _states(told: bytes) -> Iterator[_State]:
    parts = told.decode(errors="surrogateescape").split("\0")
    state = _State()
    for at in range(0, len(parts) - 2, 3):
        kind, name, text = parts[at : at + 3]
        if kind == "end":
            yield state
            state = _State()
        else:
            state.add(kind, name, text)


# In the form that a shell writes, with or without ``alias`` before: a name, and a value of pieces quoted by the shell.
_ALIAS = re.compile(
    r"""^(?:alias )?(?:-- )?([^\s='"]++)=((?:'[^']*+'|"[^"]*+"|\\.|[^'"\\\n])*+)\n""",
    re.DOTALL | re.MULTILINE,
)


def _aliases(text: str) -> Iterator[Definition]:
    return (Definition("alias", found[1], found[2]) for found in _ALIAS.finditer(text + "\n"))


_NAME = re.compile(r"^\w+=")

# Variables of the user, the host, the locale and the editor: no secrets, and usual in functions and aliases.
_NO_SECRET = re.compile(
    r"(?:_|PATH|USER|LOGNAME|HOST|HOSTNAME|HOSTTYPE|MACHTYPE|OSTYPE|SHELL|TERM|COLORTERM|TERM_PROGRAM|LANG|LANGUAGE|LC_\w+|TZ"
    r"|EDITOR|VISUAL|FCEDIT|BROWSER|PAGER|MANPAGER|GIT_PAGER|GIT_EDITOR|LESS|LESSOPEN|LS_COLORS|LSCOLORS|GREP_COLORS?"
    r"|PS1|PS2|PROMPT|DISPLAY|WAYLAND_DISPLAY|DESKTOP_SESSION|XDG_\w+)="
)

_EXPORTED_FUNCTION = re.compile(r"^BASH_FUNC_.*?^\}$\n?", re.MULTILINE | re.DOTALL)


def _values(environment: str) -> frozenset[str]:
    """Return the values in the output of env(1). A value of several lines, such as a key, counts line by line."""
    lines = _EXPORTED_FUNCTION.sub("", environment).splitlines()
    values = {_NAME.sub("", line).strip() for line in lines if not _NO_SECRET.match(line)}
    return frozenset(value for value in values if len(value) >= SHORTEST_SECRET)


def holds(definition: Definition, value: str) -> bool:
    """Return whether a definition contains a text, in any quoting of the shell."""
    bare = re.sub(r"'\\''|'\"'\"'", "'", definition.text)
    return value in definition.text or value in bare


_TOLD = """printf 'file\\0%s\\0%s\\0' "$ANYSHELL_FILE" "$ANYSHELL_STATUS" """

_READ = """if [ -r "$ANYSHELL_FILE" ]; then
  . "$ANYSHELL_FILE"
  ANYSHELL_STATUS="returned $?"
elif [ -e "$ANYSHELL_FILE" ]; then ANYSHELL_STATUS=unreadable
else ANYSHELL_STATUS=absent
fi"""
"""At the top level: in a function, declarations of the file would be local."""

_READ_ONE = f"""ANYSHELL_FILE=$1
shift
{_READ}"""

_READ_ZSH = f"""ANYSHELL_FILE=$1/.zshenv ANYSHELL_HOME=$2
shift 2
{_READ}
builtin {_TOLD} >&{_FD}
ANYSHELL_FILE=${{ZDOTDIR:-$ANYSHELL_HOME}}/.zshrc ANYSHELL_STATUS=
{_READ}"""

_CALM = "trap - DEBUG ERR RETURN; set +efuvx"
"""Reset settings of a startup file that would get into the records, or end the subshell that writes them."""

_USED = "builtin unset trap set exec eval read alias shopt export"
"""The builtins besides declare and printf that write bash's records; a function may have any of these names."""

_TELL_BASH = rf"""(
    ANYSHELL_SET=$SHELLOPTS ANYSHELL_SHOPT=${{BASHOPTS-$(shopt -s)}} POSIXLY_CORRECT=1
    {_CALM}
    exec >&{_FD}
    ( unset -f typeset builtin; unset POSIXLY_CORRECT
      for ANYSHELL_NAME in declare printf; do
        if builtin typeset -F "$ANYSHELL_NAME" >/dev/null; then
          builtin printf 'function\0%s\0' "$ANYSHELL_NAME"; builtin typeset -f "$ANYSHELL_NAME"; builtin printf '\0'
        fi
      done )
    ( unset -f declare printf; unset POSIXLY_CORRECT
      for ANYSHELL_NAME in {_USED}; do
        if declare -F "$ANYSHELL_NAME" >/dev/null; then
          printf 'function\0%s\0' "$ANYSHELL_NAME"; declare -f "$ANYSHELL_NAME"; printf '\0'
        fi
      done )
    unset -f declare printf {_USED}
    unset POSIXLY_CORRECT
    IFS=' '
    declare -F | while read -r ANYSHELL_ ANYSHELL_FLAGS ANYSHELL_NAME; do
      case $ANYSHELL_NAME in anyshell_tell) continue;; esac
      case $ANYSHELL_FLAGS in *x*) ANYSHELL_FLAGS=' x';; *) ANYSHELL_FLAGS=;; esac
      printf 'function%s\0%s\0' "$ANYSHELL_FLAGS" "$ANYSHELL_NAME"; declare -f -- "$ANYSHELL_NAME"; printf '\0'
    done
    printf 'options\0set\0%s\0options\0shopt\0%s\0' "${{ANYSHELL_SET//:/ }}" "${{ANYSHELL_SHOPT//:/ }}"
    printf 'path\0\0%s\0aliases\0\0' "$PATH"; alias -p
    printf '\0environment\0\0'; "$ANYSHELL_ENV"
    printf '\0'; {_TOLD}; printf 'end\0\0\0'
)"""

_TELL_SH = rf"""(
    ANYSHELL_SET=$(set +o)
    unset -f printf alias
    set +efuvx
    IFS=' '
    exec >&{_FD}
    printf 'options\0set\0'
    printf '%s\n' "$ANYSHELL_SET" | while read -r ANYSHELL_ ANYSHELL_FLAG ANYSHELL_NAME; do
      case $ANYSHELL_FLAG in -o) printf '%s ' "$ANYSHELL_NAME";; esac
    done
    printf '\0path\0\0%s\0aliases\0\0' "$PATH"; alias
    printf '\0environment\0\0'; "$ANYSHELL_ENV"
    printf '\0'; {_TOLD}; printf 'end\0\0\0'
)"""

# Autoload functions stay so, but with the directory of their file: the search path is a variable. The thousands of
# functions of the completion system are left out: without a line editor they are useless.
_TELL_ZSH = rf"""(
    ANYSHELL_SET=
    for ANYSHELL_NAME in ${{(k)options[@]}}; do
      if [[ ${{options[$ANYSHELL_NAME]}} == on ]]; then ANYSHELL_SET="$ANYSHELL_SET $ANYSHELL_NAME"; fi
    done
    builtin emulate -R zsh
    builtin unset -f -m 'TRAP[A-Z]*'
    builtin trap - DEBUG ZERR
    {{
    for ANYSHELL_NAME in ${{(ok)functions}}; do
      case $ANYSHELL_NAME in anyshell_tell) continue;; esac
      if [[ $functions[$ANYSHELL_NAME] == 'builtin autoload -X'* ]]; then
        if [[ $ANYSHELL_NAME == _* ]]; then continue; fi
        builtin autoload -r -- "$ANYSHELL_NAME"
      fi
      builtin printf 'function\0%s\0' "$ANYSHELL_NAME"; builtin typeset -f -- "$ANYSHELL_NAME"; builtin printf '\0'
    done
    for ANYSHELL_NAME in ${{(ok)aliases}}; do
      builtin printf 'alias\0%s\0%s\0' "$ANYSHELL_NAME" "$aliases[$ANYSHELL_NAME]"
    done
    for ANYSHELL_NAME in ${{(ok)galiases}}; do
      builtin printf 'alias -g\0%s\0%s\0' "$ANYSHELL_NAME" "$galiases[$ANYSHELL_NAME]"
    done
    for ANYSHELL_NAME in ${{(ok)saliases}}; do
      builtin printf 'alias -s\0%s\0%s\0' "$ANYSHELL_NAME" "$saliases[$ANYSHELL_NAME]"
    done
    builtin printf 'options\0set\0%s\0path\0\0%s\0environment\0\0' "$ANYSHELL_SET" "$PATH"
    "$ANYSHELL_ENV"
    builtin printf '\0'; builtin {_TOLD}; builtin printf 'end\0\0\0'
    }} >&{_FD}
)"""

LOOK = r"""umask 077
D=${ANYSHELL_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/anyshell}/snapshots
mkdir -p "$D" 2>/dev/null; chmod 700 "$D" 2>/dev/null
printf '%s\0' "$HOME" "${ZDOTDIR-}" "${ENV-}" "$PATH" "$D"
if cd "$D" 2>/dev/null && ! [ -L "$D" ]; then
  U=$(id -u)
  ls -t; printf '\0'
  find . -prune -type d -user "$U" ! -perm -020 ! -perm -002 2>/dev/null
  find . -type f -user "$U" ! -perm -020 ! -perm -002 2>/dev/null
else printf '\0'
fi
printf '\0end'
"""
"""The text that reports the host's needed variables, the directory of snapshots, and the snapshots that no other user wrote."""

DIALECTS: Mapping[ShellKind, Dialect] = MappingProxyType(
    {
        "bash": Dialect(BASH, ("--norc", "--noprofile", "-i"), _TELL_BASH, _READ_ONE),
        "zsh": Dialect(ZSH, ("-f", "-i"), _TELL_ZSH, _READ_ZSH),
        "sh": Dialect(SH, ("-i",), _TELL_SH, _READ_ONE),
    }
)
"""The dialect of each kind of shell."""
