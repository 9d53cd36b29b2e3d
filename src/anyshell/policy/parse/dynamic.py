"""Builtins that evaluate texts, and variables that decide what programs run."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from .options import SETTINGS
from .words import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import ShellKind
    from .parsed import Argument

# Variables of shells, of loaders and of git, and variables that make a tool run a program or fetch parts from elsewhere.
_VARIABLES = re.compile(
    r"""PATH|IFS|ENV|BASH_.+|BASHOPTS|RANDOM|SRANDOM|SECONDS|LINENO|OPTIND|HISTCMD|EPOCH\w+|SHELL|SHELLOPTS|PS[0-4]|PROMPT\w*|[LR]PS1|CDPATH|F?PATH|MANPATH|MODULE_PATH
    |HOME|PWD|ZDOTDIR|XDG_\w+|NULLCMD|READNULLCMD|HISTCHARS|histchars|FIGNORE
    |EXECIGNORE|GLOBIGNORE|TIMEFORMAT|FCEDIT|HISTFILE|POSIXLY_CORRECT|INPUTRC|MAIL\w*|TERMINFO\w*|TERMCAP
    |LD_\w+|DYLD_\w+|GCONV_PATH|GETCONF_DIR|LOCPATH|NLSPATH|MALLOC_\w+|GLIBC_TUNABLES|RES_OPTIONS|LOCALDOMAIN|HOSTALIASES
    |GIT_\w+|SSH_\w+|RSYNC_\w+|CVS_RSH|SVN_\w+|HG\w*
    |\w*(?:PAGER|EDITOR|VISUAL|BROWSER|ASKPASS|SHELL|PRELOAD|STARTUP|WRAPPER|COMMAND|CMD|HOOK|EXEC|INIT|PROGRAM|RUNNER|LINKER)
    |\w*(?:OPTS|OPTIONS|FLAGS|OPT|CONFIG|CONFIG_FILE|CONFIG_PATH|RC|RCFILE|INIT_FILE|TOOLEXEC|INTERPRETER)
    |PYTHON(?!UNBUFFERED|DONTWRITEBYTECODE|IOENCODING|UTF8|HASHSEED|WARNINGS|FAULTHANDLER|OPTIMIZE)\w+|PERL\w*LIB|PERL5\w+|RUBYLIB|GEM_\w+
    |BUNDLE_\w+|npm_config_\w+|NPM_CONFIG_\w+|YARN_\w+|CLASSPATH|JAVA_HOME|GOROOT|GOPATH|GOENV
    |RUSTC|RUSTUP_\w+|CC|CXX|CPP|LD|AS|AR|NM|MAKE|LESS|LESS(?:OPEN|CLOSE|KEY\w*|EDIT)|SUDO_\w+|DOCKER_\w+|KUBE\w+|TAR_\w+
    |PIP_\w+|UNZIP|ZIPINFO|XZ_DEFAULTS|PERLIO_DEBUG|COMPILER_PATH|TMPDIR|GCC_\w+|BASH_FUNC_\w+|VIRTUAL_ENV|CONDA_\w+|LUA_\w+|PHPRC|PHP_INI\w+|R_\w+|JULIA_\w+|MAKEFILES|MIBDIRS|OPENSSL_\w+|SSLKEYLOGFILE|\w*_(?:PROXY|proxy)|CURL_\w+
    |DBUS_\w+|SYSTEMD_\w+|DEBUGINFOD_\w+|(?:XML|SGML)_CATALOG_FILES|MAGIC|GNUPGHOME|PS_\w+|CMD_ENV|UNIX95|I_WANT_A_BROKEN_PS
    |CARGO(?:_(?!TERM_|INCREMENTAL|PROFILE_|NET_OFFLINE)\w+)?|RUST(?:DOC|FMT)|GO(?:TOOLCHAIN|CACHEPROG|\w*SUMDB|PRIVATE|INSECURE|VCS|AUTH|\w*PROXY)
    |UV_(?!NO_|OFFLINE|FROZEN|LOCKED|COLOR|PRERELEASE)\w+|POETRY_\w+|TOX_\w+|\w*PLUGINS|NODE_(?!ENV\Z|NO_|DEBUG|TLS)\w+|COREPACK_\w+|BUN_\w+
    |MAVEN_\w+|MVNW_\w+|GRADLE_\w+|(?:DOTNET|CORECLR|COR|COMPlus|NUGET)_(?!CLI_|NOLOGO|ENVIRONMENT)\w+
    |CMAKE_(?!BUILD_|COLOR)\w+|CONTAINER_\w+|COMPOSE_\w+|GH_\w+""",
    re.VERBOSE | re.DOTALL,
)
_VARIABLES_ZSH = re.compile("f?path|cdpath|module_path|prompt|PROMPT[0-9]?|STTY|TMPPREFIX|ARGV0|OPTARG")


_VARIABLES_POWERSHELL = re.compile(
    r"PS\w+|__PS\w+|PATHEXT|COMSPEC|SYSTEMROOT|WINDIR|USERPROFILE|HOME\w+|(?:DOTNET|COMPLUS|COR|CORECLR)_\w+"
)


def variable(name: str, shell: ShellKind = "bash") -> bool:
    """Whether a variable decides which programs run or which hosts programs connect to, or the shell evaluates its value."""
    if shell in ("pwsh", "powershell"):  # Windows ignores case in names of variables
        name = name.upper()
        return bool(_VARIABLES.fullmatch(name) or _VARIABLES_POWERSHELL.fullmatch(name))
    return bool(_VARIABLES.fullmatch(name) or (shell == "zsh" and _VARIABLES_ZSH.fullmatch(name)))


_ALWAYS = {
    **dict.fromkeys(
        names("let unset trap alias unalias source . enable compgen complete fc coproc"), "evaluates texts"
    ),
    **dict.fromkeys(
        names("tmux screen at batch crontab systemd-run expect entr"),
        "runs programs in ways that are not parsed",
    ),
    **dict.fromkeys(
        names(
            "fish csh tcsh ksh ksh93 mksh lksh pdksh oksh posh yash rksh xonsh nu elvish cmd cmd.exe wsl pwsh powershell"
        ),
        "runs a language that is not parsed",
    ),
    **dict.fromkeys(names("pwsh.exe powershell.exe wsl.exe bash.exe"), "runs a language that is not parsed"),
}
_ZSH = names(
    "setopt unsetopt emulate zmodload autoload zle bindkey functions vared sched zcompile zstyle compdef add-zsh-hook disable "
    "zformat zparseopts zsh-defer float integer options limit noglob nocorrect repeat"
)
_ZSH_NUMBERS = names("exit return shift break continue bye logout")
_DECLARATIONS = names("declare typeset local export readonly")
_NUMERIC = names("-eq -ne -lt -le -gt -ge")
_SETS = re.compile(r"[-+][aefhmnuvxBCET]+")
_SHOPTS = names("nullglob failglob nocasematch inherit_errexit lastpipe globasciiranges checkwinsize")
_NAME = re.compile(r"[A-Za-z_]\w*")
_READ = {"read": "adiNnptu", "mapfile": "dnOsucC", "readarray": "dnOsucC", "getopts": ""}
_UNQUOTED = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")


# Programs that people and rules know by name. A function with a known name would be judged as the program.
_KNOWN = names(
    ": [ test true false echo printf read cd pushd popd pwd exit return break continue shift set shopt eval exec command builtin "
    "export declare typeset local readonly unset source . trap wait kill jobs bg fg ulimit umask type hash times alias getopts "
    "mapfile readarray let caller dirs disown help history logout suspend enable command_not_found_handle "
    "command_not_found_handler precmd preexec chpwd periodic zshexit TRAPEXIT TRAPDEBUG TRAPZERR "
    "ls cat head tail less more cp mv rm ln mkdir rmdir touch chmod chown stat file find fd grep egrep fgrep rg ag ack sed awk "
    "gawk cut sort uniq wc tr tee xargs diff cmp patch tar gzip gunzip zip unzip basename dirname realpath readlink date sleep "
    "env printenv which whereis whoami id uname hostname nproc ps top df du free mount umount dd tree seq expr bc jq yq od xxd strings "
    "md5sum sha1sum sha256sum base64 yes time timeout nice nohup setsid stdbuf watch sudo doas su ssh scp sftp rsync curl wget nc "
    "ping dig host ip ss netstat git gh hg svn make cmake ninja gcc g++ cc clang ld go cargo rustc python python2 python3 pip "
    "pip3 uv poetry tox pytest ruff mypy black node npm npx yarn pnpm bun deno tsc eslint ruby gem bundle perl php java javac mvn "
    "gradle docker podman kubectl helm terraform aws gcloud az bash sh zsh dash ksh fish vim vi nano emacs apt apt-get dnf yum "
    "brew systemctl service journalctl crontab openssl gpg sqlite3 psql mysql redis-cli"
)


def is_known(name: str) -> bool:
    """Whether a name is the name of a builtin or of a program that most people know."""
    return name in _KNOWN or name in _ALWAYS


def assigned_variables(program: str, arguments: Sequence[Argument]) -> list[str]:
    """Return the variables that a builtin such as ``read`` or ``getopts`` sets from its input or arguments."""
    if program == "getopts":
        return [each.text for each in arguments[1:2]]
    if program not in _READ:
        return []
    found, words = list[str](), iter(arguments)
    for each in words:
        if each.literal and each.text.startswith("-") and len(each.text) > 1:
            value = next((place for place, letter in enumerate(each.text) if letter in _READ[program]), 0)
            if value and value == len(each.text) - 1:
                name = next(words, None)
                if each.text.endswith("a") and name is not None:
                    found.append(name.text)
        else:
            found.append(each.text)
    return found


def split(arguments: Sequence[Argument]) -> Iterator[str]:
    """Yield the names of a test's variables that the shell splits into words; an empty name for other expansions."""
    for each in arguments:
        if not each.single and re.search(r"[$`]", each.text):
            plain = _UNQUOTED.fullmatch(each.text)
            yield plain[1] if plain else ""


def clauses(program: str, arguments: Sequence[Argument], shell: ShellKind) -> Iterator[str]:
    """Yield reasons why the effect of a builtin with its arguments is not known."""
    always = _ALWAYS.get(program)
    if always:
        yield f"{program} {always}"
    elif shell == "zsh" and (program in _ZSH or program.startswith("=")):
        yield f"{program} evaluates texts"
    elif program == "time":  # a keyword, which may precede a compound command or an assignment
        first = next((each.text for each in arguments if not each.text.startswith("-")), "")
        flags = [each.text for each in takewhile(lambda each: each.text.startswith("-"), arguments)]
        if flags not in ([], ["-p"], ["--"], ["-p", "--"]):
            yield f"time with {flags[0][:40]}, which bash takes for a program"
        if re.match(
            r"\w+(?:\[.*\])?\+?=|[{!(]|\[\[|(?:if|for|while|until|case|select|function|time|coproc)\Z",
            first,
            re.DOTALL,
        ):
            yield f"time with {first[:40]}"
    elif program in ("[", "test"):
        yield from _test(arguments, shell)
    elif program in _DECLARATIONS:
        yield from _declaration(program, arguments, shell)
    elif program in _READ:
        for name in assigned_variables(program, arguments):
            if not _NAME.fullmatch(name) or variable(name, shell):
                yield f"{program} gives {name[:40]} a value"
        if shell == "zsh" and _times(arguments):
            yield f"{program} -t evaluates a number"
        if program in ("mapfile", "readarray") and any(
            each.text.startswith("-") and "C" in each.text for each in arguments
        ):
            yield f"{program} -C evaluates a text"
    elif program == "printf":
        if arguments and (not arguments[0].literal or arguments[0].text.startswith("-v")):
            yield "printf -v evaluates the name of a variable"
        elif shell == "zsh" and arguments and re.search(r"%[^%s\\ ]", arguments[0].text):
            yield "printf evaluates numbers"
    elif program in ("set", "shopt"):
        yield from _settings(program, arguments)
    elif program in ("hash", "wait", "jobs", "print"):
        letters = {"hash": "p", "wait": "p", "jobs": "x", "print": "PzsSfvC"}[program]
        for each in arguments:
            if not each.literal or (each.text.startswith("-") and set(letters) & set(each.text)):
                yield f"{program} {each.text[:40]} may evaluate a text"
    elif shell == "zsh" and program in _ZSH_NUMBERS and not all(each.literal for each in arguments):
        yield f"{program} evaluates a number"
    elif program.startswith("%"):
        yield f"{program} is a job"


def _times(arguments: Sequence[Argument]) -> bool:
    """Whether the seconds of ``read -t`` are not a plain number."""
    words = iter(arguments)
    for each in words:
        name, letter, value = each.text.partition("t")
        if name.startswith("-") and letter:
            following = next(words, None)
            if not re.fullmatch(r"[0-9.]+", value or (following.text if following is not None else "")):
                return True
    return False


def _test(arguments: Sequence[Argument], shell: ShellKind) -> Iterator[str]:
    for each in arguments:
        if each.literal and each.text in ("-v", "-R"):
            yield "a test of a variable evaluates its index"
        elif shell == "zsh" and each.text in _NUMERIC:
            yield "a test of numbers evaluates them"


def _declaration(program: str, arguments: Sequence[Argument], shell: ShellKind) -> Iterator[str]:
    indexed = False
    for each in arguments:
        name, equals, value = each.text.partition("=")
        if each.text.startswith(("-", "+")):
            if not each.literal or set(each.text[1:]) - set(
                "aAxrgplutfFU" if shell == "zsh" else "aAxrgplutfF-"
            ):
                yield f"{program} {each.text[:40]} evaluates texts"
            indexed = indexed or bool(set("aA") & set(each.text))
        elif not _NAME.fullmatch(name.removesuffix("+")):
            yield f"{program} evaluates {name[:40]}"
        elif variable(name.removesuffix("+"), shell):
            yield f"{name} decides which programs run"
        elif equals and indexed and not each.text.startswith(f"{name}=("):
            yield f"{program} evaluates the value of {name}"
        elif shell == "sh" and re.search(r"[$`*?\[{]", value) and not re.fullmatch('"[^"]*"', value):
            yield f"{program} may take the value of {name} for more words"  # versions of dash before 2020 do


def _settings(program: str, arguments: Sequence[Argument]) -> Iterator[str]:
    allowed = SETTINGS if program == "set" else _SHOPTS
    words = iter(arguments)
    for each in words:
        if program == "set" and each.text in ("--", "-"):
            return
        if not each.literal:
            yield f"{program} with what is not literal"
        elif each.text[:1] not in ("-", "+"):
            if program == "set":
                return
            if each.text not in allowed:
                yield f"{program} {each.text} changes how texts are read"
        elif program == "set":
            if each.text[1:].endswith("o"):
                option = next(words, None)
                if option is not None and option.text not in allowed:
                    yield f"set {each.text} {option.text[:40]} changes how texts are read"
            if not _SETS.fullmatch(
                each.text.removesuffix("o")
                if len(each.text) > 2
                else "-e"
                if each.text[1:] == "o"
                else each.text
            ):
                yield f"set {each.text} changes how texts are read"
