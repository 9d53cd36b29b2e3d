r"""The texts by which a persistent shell writes its state, and a fresh shell of the same kind takes it: bash and zsh.

A fork by the shell itself would have the wrong ``$$``, no traps and another way out of errors. So the fork is a fresh shell
like any other, and takes the state that the first shell has written: directory, variables of every kind, functions, aliases,
options, traps, umask, limits, positional parameters and the stack of directories.

The first shell itself writes its traps into one file, and a subshell without traps writes the rest into another. The text
runs while aliases are off, and each of anyshell's words stands behind ``builtin``. In the files, the lines that a shell
writes without ``builtin`` come before any function is defined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyshell._types import ShellKind

    from .posix import Shell

_LIMITS = "c d e f i l m n q r s t u v"
"""The letters of ``ulimit``, without the limit that marks the processes of a command."""

_DYNAMIC_BASH = (
    "ANYSHELL_*|BASH|BASHOPTS|BASHPID|BASH_ALIASES|BASH_ARG*|BASH_CMDS|BASH_COMMAND|BASH_EXECUTION_STRING|BASH_LINENO"
    "|BASH_SOURCE|BASH_SUBSHELL|BASH_VERS*|COMP_WORDBREAKS|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|PIPESTATUS"
    "|PPID|RANDOM|SRANDOM|SHELLOPTS|UID|_"
)
"""Variables that bash sets itself."""

_DYNAMIC_ZSH = r"ANYSHELL_*|_|WATCH|watch|\?|\!|\$|\#|\*|@|-|0|status|pipestatus|argv|RANDOM|LINENO|TTYIDLE|PWD|ERRNO|UID|GID|EUID|EGID|USERNAME"
"""Variables that zsh sets itself, or that change the user."""

_UMASK_AND_LIMITS = rf"""\builtin printf '\\builtin umask %s\n' "$(\builtin umask)"
for ANYSHELL_NAME in {_LIMITS}; do for ANYSHELL_ in S H; do
\builtin printf '\\builtin ulimit -%s -%s ' $ANYSHELL_ $ANYSHELL_NAME
\builtin ulimit -$ANYSHELL_ -$ANYSHELL_NAME || \builtin printf '\n'; done; done"""

# PWD is a variable like any other.
_DIRECTORY = r"""ANYSHELL_=$PWD; [[ $PWD == /* && . -ef $PWD ]] || ANYSHELL_=$(\builtin pwd -P)
case $ANYSHELL_ in '') ANYSHELL_=/dev/null/gone;; esac"""

_FROM_BASH = rf"""for ANYSHELL_SET in EXIT ERR RETURN {" ".join(str(n) for n in range(1, 65) if n != 26)}; do
\builtin printf '\\builtin ' >>TRAPS
\builtin trap -p "$ANYSHELL_SET" >>TRAPS 2>/dev/null || \builtin :
\builtin printf '\n' >>TRAPS
done
\builtin unset ANYSHELL_SET
\builtin printf '%s\n' 'ANYSHELL_FORK+=:traps' >>TRAPS
(
\builtin trap - DEBUG ERR RETURN EXIT
ANYSHELL_SHOPT=$(\builtin shopt -p) ANYSHELL_SET=:$SHELLOPTS:
\builtin set +efuvx; \builtin set +o posix; \builtin shopt -u nocasematch
{{
{_DIRECTORY}
\builtin printf '\\unset -f builtin; ANYSHELL_FORK=; \\builtin cd -- %q && ANYSHELL_FORK=here\n' "$ANYSHELL_"
\builtin printf '%s\n' "${{ANYSHELL_SHOPT/shopt -? expand_aliases/}}" UNSET
while IFS=' ' \builtin read -r ANYSHELL_ ANYSHELL_FLAGS ANYSHELL_NAME; do
ANYSHELL_NAME=${{ANYSHELL_NAME%%=*}}
case $ANYSHELL_FLAGS:$ANYSHELL_NAME in -*:*[!a-zA-Z0-9_]*) ;; -*) case $ANYSHELL_NAME in {_DYNAMIC_BASH}) ;; *)
\builtin declare -p -- "$ANYSHELL_NAME";; esac;; esac
done <<<"$(\builtin declare -p)"
while IFS=' ' \builtin read -r ANYSHELL_ ANYSHELL_FLAGS ANYSHELL_NAME; do case $ANYSHELL_NAME in ?*)
\builtin printf '\\builtin eval %q\n' "$(\builtin declare -f -- "$ANYSHELL_NAME")"
\builtin printf '\\builtin declare %s -- %q\n' "$ANYSHELL_FLAGS" "$ANYSHELL_NAME";; esac
done <<<"$(\builtin declare -F)"
\builtin printf '\\builtin set --'; case $# in 0) ;; *) \builtin printf ' %q' "$@";; esac; \builtin printf '\n'
{_UMASK_AND_LIMITS}
for ((ANYSHELL_ = ${{#DIRSTACK[@]}} - 1; ANYSHELL_ > 0; ANYSHELL_--)); do
\builtin printf '\\builtin pushd -n %q\n' "${{DIRSTACK[ANYSHELL_]}}"; done
for ANYSHELL_NAME in "${{!BASH_ALIASES[@]}}"; do
\builtin printf '\\builtin alias -- %q=%q\n' "$ANYSHELL_NAME" "${{BASH_ALIASES[$ANYSHELL_NAME]}}"; done
case ${{ANYSHELL_ALIASES-}} in ?*) \builtin printf '%s\n' '\builtin shopt -u expand_aliases';; esac
while IFS=' ' \builtin read -r ANYSHELL_ ANYSHELL_FLAGS ANYSHELL_NAME; do
case $ANYSHELL_SET in *:$ANYSHELL_NAME:*) ANYSHELL_=-o;; *) ANYSHELL_=+o;; esac
\builtin printf '\\builtin set %s %s\n' $ANYSHELL_ "$ANYSHELL_NAME"; done <<<"$(\builtin set +o)"
\builtin printf '%s\n' 'ANYSHELL_FORK+=:state'
}} >|STATE
) 2>/dev/null
"""

_UNSET_BASH = r"""while IFS=' ' \builtin read -r ANYSHELL_ ANYSHELL_ ANYSHELL_NAME; do case $ANYSHELL_NAME in ANYSHELL_*|PWD=*) ;;
*) \builtin unset -v "${ANYSHELL_NAME%%=*}";; esac; done <<<"$(\builtin declare -px)"
while IFS=' ' \builtin read -r ANYSHELL_ ANYSHELL_ ANYSHELL_NAME; do \builtin unset -f "$ANYSHELL_NAME"
done <<<"$(\builtin declare -F)"; \builtin unset ANYSHELL_ ANYSHELL_NAME"""
"""The text that removes from a fresh bash the exported variables and functions of its start, which the other shell may lack."""

# Options come before functions, since some options change how functions are read; options that would end or disturb the
# reader come last.
_FROM_ZSH = rf"""\builtin trap >>|TRAPS
\builtin print -r -- '\builtin enable -f trap || \builtin :; ANYSHELL_FORK+=:traps' >>|TRAPS
(
\builtin trap -
ANYSHELL_SET=
for ANYSHELL_NAME in ${{(k)options[@]}}; do case $ANYSHELL_NAME in exec|aliases|restricted|privileged) ;; *)
if [[ ${{options[$ANYSHELL_NAME]}} == on ]]; then ANYSHELL_SET="$ANYSHELL_SET $ANYSHELL_NAME"
else ANYSHELL_SET="$ANYSHELL_SET no_$ANYSHELL_NAME"; fi;; esac; done
\builtin emulate -R zsh
{{
{_DIRECTORY}
\builtin print -r -- "ANYSHELL_FORK=; \\builtin cd -q -- ${{(qq)ANYSHELL_}} && ANYSHELL_FORK=here"
\builtin print -rl -- "ANYSHELL_NAMES=( ${{(@qqk)parameters}} )" UNSET
for ANYSHELL_NAME in ${{(ok)parameters}}; do case $ANYSHELL_NAME in {_DYNAMIC_ZSH}) ;; *) case $parameters[$ANYSHELL_NAME] in
*hideval*special*|*readonly*special*) ;;
array*tied*unique*) \builtin print -r -- "\\builtin typeset -U $ANYSHELL_NAME";;
array*tied*) ;;
*) \builtin typeset -p -- $ANYSHELL_NAME;; esac;; esac; done
for ANYSHELL_NAME in ${{=ANYSHELL_SET}}; do case $ANYSHELL_NAME in
*err*exit|*err*return|*unset|*allexport|*warn*|*xtrace|*verbose) ;; *)
\builtin print -r -- "\\builtin setopt $ANYSHELL_NAME";; esac; done
for ANYSHELL_NAME in ${{(ok)functions}}; do \builtin typeset -f -- $ANYSHELL_NAME; done
\builtin print -r -- "\\builtin set -- ${{(@qq)@}}"
(( ! $#dirstack )) || \builtin print -r -- "dirstack=( ${{(@qq)dirstack}} )"
for ANYSHELL_NAME in ${{(k)nameddirs}}; do
\builtin print -r -- "\\builtin hash -d -- ${{(qq)ANYSHELL_NAME}}=${{(qq)nameddirs[$ANYSHELL_NAME]}}"; done
for ANYSHELL_NAME in ${{(k)aliases}}; do
\builtin print -r -- "\\builtin alias -- ${{(qq)ANYSHELL_NAME}}=${{(qq)aliases[$ANYSHELL_NAME]}}"; done
for ANYSHELL_NAME in ${{(k)galiases}}; do
\builtin print -r -- "\\builtin alias -g -- ${{(qq)ANYSHELL_NAME}}=${{(qq)galiases[$ANYSHELL_NAME]}}"; done
for ANYSHELL_NAME in ${{(k)saliases}}; do
\builtin print -r -- "\\builtin alias -s -- ${{(qq)ANYSHELL_NAME}}=${{(qq)saliases[$ANYSHELL_NAME]}}"; done
{_UMASK_AND_LIMITS}
\builtin print -r -- "${{ANYSHELL_ALIASES:+ANYSHELL_ALIASES=off; }}\\builtin disable -f trap"
\builtin print -r -- "\\builtin setopt$ANYSHELL_SET"
\builtin print -r -- 'ANYSHELL_FORK+=:state'
}} >|STATE
) 2>/dev/null
"""

_UNSET_ZSH = r"""for ANYSHELL_NAME in ${(k)parameters[(R)*export*]}; do case $ANYSHELL_NAME in ANYSHELL_*|PWD) ;; *)
if (( ${ANYSHELL_NAMES[(Ie)$ANYSHELL_NAME]} )); then \builtin typeset +x $ANYSHELL_NAME
else \builtin unset $ANYSHELL_NAME; fi;; esac; done; \builtin unset ANYSHELL_NAME ANYSHELL_NAMES"""
"""The same for zsh, where a variable that the other shell has stays, since it may be special."""

_FROM: Mapping[ShellKind, tuple[str, str]] = {
    "bash": (_FROM_BASH, _UNSET_BASH),
    "zsh": (_FROM_ZSH, _UNSET_ZSH),
}


FORKED = frozenset(_FROM)
"""The kinds of shell that can be forked."""


@dataclass(frozen=True, slots=True)
class Fork:
    """The texts for one fork.

    Args:
        shell: A bash or zsh.
        place: The start of the paths of two files, which only this fork uses.
    """

    shell: Shell
    place: str

    def line(self) -> str:
        """Return the line that the first shell reads at its input: a file cannot see a DEBUG trap of bash."""
        traps = self.shell.quote(f"{self.place}-traps")
        if self.shell.kind != "bash":
            return f"\\builtin printf '' >|{traps}\n"
        tell = "\\builtin printf '\\\\builtin '", "\\builtin trap -p DEBUG", "\\builtin printf '\\n'"
        return f"{tell[0]} >|{traps}; {tell[1]} >>{traps}; {tell[2]} >>{traps}\n"

    def tell(self) -> str:
        """Return the text by which the first shell writes its state."""
        text, unset = _FROM[self.shell.kind]
        text = text.replace("STATE", self.shell.quote(f"{self.place}-state"))
        return text.replace("TRAPS", self.shell.quote(f"{self.place}-traps")).replace(
            "UNSET", self.shell.quote(unset)
        )

    def take(self) -> str:
        """Return the line by which the fresh shell takes the state, and empties the files."""
        files = [self.shell.quote(f"{self.place}-{each}") for each in ("state", "traps")]
        reads = [f"\\builtin . {file}" for file in files]
        return "; ".join([*reads, *(f"\\builtin printf '' >|{file}" for file in files)]) + "\n"

    def check(self) -> str:
        """Return a text that fails in a shell which has not taken the whole state."""
        return '\\builtin test "${ANYSHELL_FORK-}" = here:state:traps && \\builtin unset ANYSHELL_FORK\n'
