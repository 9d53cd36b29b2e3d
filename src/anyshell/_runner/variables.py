"""Environment variables for commands that run unattended: no program waits for a person, none floods the output.

Three rules chose the variables. A program does exactly the work that it was told to do: where a program can either refuse to
ask or take yes for an answer, it refuses. A question that only a person can answer fails at once, so its message is read. And
every variable here is documented by its program; the comment beside it names the source.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from .. import shells

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._types import HostInfo, ShellInfo

Interactive = bool | Literal["watched"]
"""The host variables that stay unchanged: none of those below, all, or ``"watched"``. On a terminal that a person watches,
all stay but the guards against hanging: a command without a terminal waits as long for an editor.
"""

# Bare names, looked up on PATH: true and false are in /bin on one system, in /usr/bin on the next. git, ssh and the
# programs that call pagers all search PATH.
_PAGER = "cat"

# An editor that succeeds and changes nothing. A program that already has a text goes on with it (git merge, git rebase
# --continue, kubectl edit); a program that needs a text finds it empty, and aborts with its own message (git commit). An
# editor that fails would break the first kind without helping the second.
_EDITOR = "true"

# A program that gives no answer, and fails at once.
_NO_ANSWER = "false"

_GUARDS: dict[str, str] = {
    # Pagers. Each of these has precedence over PAGER in its program, so PAGER alone is not enough.
    "PAGER": _PAGER,  # environ(7), man(1), git(1), psql(1) and many more
    "MANPAGER": _PAGER,  # man(1)
    "GIT_PAGER": _PAGER,  # git-var(1)
    "SYSTEMD_PAGER": _PAGER,  # systemctl(1), journalctl(1)
    "BAT_PAGER": _PAGER,  # bat's README, "Using a different pager"
    "DELTA_PAGER": _PAGER,  # delta's manual, "Environment variables"
    "GH_PAGER": _PAGER,  # gh-environment(1)
    "PSQL_PAGER": _PAGER,  # psql(1)
    "AWS_PAGER": _PAGER,  # AWS CLI user guide, "Client-side pager"
    # For programs that call less by name: quit if the text fits on one screen, pass colours through, do not clear the
    # screen, and do not wait for RETURN because TERM is dumb.
    "LESS": "-FRXd",  # less(1)
    # Editors.
    "EDITOR": _EDITOR,  # environ(7)
    "VISUAL": _EDITOR,  # environ(7)
    "GIT_EDITOR": _EDITOR,  # git-var(1); wins over core.editor
    # Not _EDITOR: git would accept the unedited list of commits, and rebase -i would report success. So the editor fails
    # at once, and git reports a problem with the editor.
    "GIT_SEQUENCE_EDITOR": _NO_ANSWER,  # git-rebase(1), sequence.editor; git asks it before GIT_EDITOR
    "GH_EDITOR": _EDITOR,  # gh-environment(1)
    "KUBE_EDITOR": _EDITOR,  # kubectl edit --help
    "HGEDITOR": _EDITOR,  # hg help environment
    "SVN_EDITOR": _EDITOR,  # Subversion book, "Environment variables"
    "SUDO_EDITOR": _EDITOR,  # sudo(8), sudoedit
    # Passwords and host keys. Programs ask on a terminal only where there is one, hence the *_REQUIRE.
    "GIT_TERMINAL_PROMPT": "0",  # git(1)
    "GIT_ASKPASS": _NO_ANSWER,  # git(1), gitcredentials(7)
    "SSH_ASKPASS": _NO_ANSWER,  # ssh(1)
    "SSH_ASKPASS_REQUIRE": "force",  # ssh(1), since OpenSSH 8.4: run the askpass program even if there is a terminal
    "GCM_INTERACTIVE": "false",  # Git Credential Manager, docs/environment.md
    # Package managers that ask.
    "DEBIAN_FRONTEND": "noninteractive",  # debconf(7)
    "APT_LISTCHANGES_FRONTEND": "none",  # apt-listchanges(1): otherwise it shows news in a pager
    "NEEDRESTART_MODE": "l",  # needrestart(1), -r: list what should be restarted; do not ask, do not restart
    "PIP_NO_INPUT": "1",  # pip's user guide, --no-input
    "PDM_NON_INTERACTIVE": "1",  # pdm --help, --non-interactive
    "npm_config_yes": "true",  # npm's configuration, yes: npx fetches what it was told to run
    "COREPACK_ENABLE_DOWNLOAD_PROMPT": "0",  # Corepack's README, "Environment variables"
    "COMPOSER_NO_INTERACTION": "1",  # Composer's CLI page, "Environment variables"
    "HOMEBREW_NO_ASK": "1",  # brew(1), "Environment"; from Homebrew 6 on it asks before it installs
    "PERL_MM_USE_DEFAULT": "1",  # ExtUtils::MakeMaker(3pm): questions take their default
    "NG_CLI_ANALYTICS": "false",  # Angular CLI, "ng analytics": otherwise it asks for permission at the first run
    # Clouds and hosting.
    "TF_INPUT": "0",  # Terraform CLI, "Environment variables"
    "GH_PROMPT_DISABLED": "1",  # gh-environment(1)
    "GLAB_NO_PROMPT": "true",  # glab's README; NO_PROMPT, its old name, makes it print a warning
    "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",  # gcloud topic configurations, core/disable_prompts: defaults are taken
    "AWS_CLI_AUTO_PROMPT": "off",  # AWS CLI user guide, "Command prompting"
    "COMPOSE_MENU": "false",  # Docker Compose, "Pre-defined environment variables": otherwise up listens to keys
    "PLAYWRIGHT_HTML_OPEN": "never",  # Playwright, "Reporters": otherwise it serves a report after a failure
}

_CALM: dict[str, str] = {
    # Variables by which a program recognises its environment.
    "TERM": "dumb",  # terminfo(5): no cursor addressing, so no full-screen programs
    # "true" rather than "1": Angular and others parse a boolean, other programs only check whether CI is set. Some tools
    # become stricter under CI (pnpm and Yarn keep the lock file unchanged); env={"CI": ""} undoes that.
    "CI": "true",
    "AGENT": "1",  # a convention of coding agents, which programs read to print for a model
    "TF_IN_AUTOMATION": "1",  # Terraform CLI, "Environment variables": no advice on what to type next
    "PYTHONUNBUFFERED": "1",  # python(1): output comes as it is printed, also that of a program being stopped
    # Colour.
    "NO_COLOR": "1",  # no-color.org
    "CLICOLOR": "0",  # bixense.com/clicolors, ls(1) on macOS
    "CARGO_TERM_COLOR": "never",  # The Cargo Book, "Environment variables"
    "RUSTUP_TERM_COLOR": "never",  # The rustup book, "Environment variables"
    "COMPOSE_ANSI": "never",  # Docker Compose, "Pre-defined environment variables"
    # Progress and hints.
    "PIP_PROGRESS_BAR": "off",  # pip install, --progress-bar
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",  # pip, --disable-pip-version-check
    "UV_NO_PROGRESS": "1",  # uv, "Environment variables"
    "npm_config_progress": "false",  # npm's configuration, progress
    "npm_config_update_notifier": "false",  # npm's configuration, update-notifier
    "YARN_ENABLE_PROGRESS_BARS": "false",  # Yarn's .yarnrc.yml, enableProgressBars
    "CARGO_TERM_PROGRESS_WHEN": "never",  # The Cargo Book, "Configuration", term.progress.when
    "RUSTUP_TERM_PROGRESS_WHEN": "never",  # The rustup book, "Environment variables"
    "BUILDKIT_PROGRESS": "plain",  # docker buildx build, --progress
    "AZURE_CORE_DISABLE_PROGRESS_BAR": "true",  # Azure CLI configuration, core.disable_progress_bar
    "HOMEBREW_NO_ENV_HINTS": "1",  # brew(1), "Environment"
    "GH_NO_UPDATE_NOTIFIER": "1",  # gh-environment(1)
}

NON_INTERACTIVE: Mapping[str, str] = MappingProxyType(_GUARDS | _CALM)
"""The variables that are set for every command unless its environment is interactive; a caller's variables override them."""

# On Windows, cat depends on the shell: in PowerShell it is Get-Content, which `help` would pipe into and fail. An empty
# value means no pager to every one of these (git(1), psql(1), gh, bat, delta and the AWS CLI as above); for `help` it
# means Windows' more.com, which does not wait for a key where stdout is not a console.
_NO_PAGER = {name: "" for name, value in _GUARDS.items() if value == _PAGER}

NON_INTERACTIVE_ON_WINDOWS: Mapping[str, str] = MappingProxyType(_GUARDS | _NO_PAGER | _CALM)
"""The non-interactive set of a Windows host. Git for Windows has its editors; a program without an editor fails, and says so."""

HANG_GUARDS: frozenset[str] = frozenset(_GUARDS)
"""The variables of `NON_INTERACTIVE` that keep a command from waiting for a person. A model cannot set these variables."""

# Each of these would undo the set where the host has it. Another value does not help: the variable counts when it is set
# at all, or precedes a variable that is set.
_LEADS_TO_A_PERSON = frozenset(
    {
        "GPG_TTY",  # gpg-agent(1): the terminal on which pinentry asks; it overwrites the screen, and waits
        "SSH_TTY",  # ssh(1): programs that take it for a sign of a person ask there
        "SYSTEMD_EDITOR",  # systemctl(1); before EDITOR
        "PSQL_EDITOR",  # psql(1); before EDITOR
        "PERLDOC_PAGER",  # perldoc(1); before PAGER
    }
)
_COLOURS = frozenset(
    {
        "FORCE_COLOR",  # force-color.org; chalk, rich and others let it win over NO_COLOR
        "CLICOLOR_FORCE",  # bixense.com/clicolors
    }
)

REMOVED: frozenset[str] = _LEADS_TO_A_PERSON | _COLOURS
"""The host variables that no command has unless its environment is interactive, or the caller sets them."""

NOT_FOR_MODELS: frozenset[str] = HANG_GUARDS | _LEADS_TO_A_PERSON
"""The variables that a model cannot set unless the environment is interactive: they make a command wait for a person."""

_PYTHON = {
    "PYTHONUTF8": "1",  # python(1), UTF-8 mode: files and arguments too
    # For Pythons without UTF-8 mode; with Python's way to carry bytes that are not UTF-8.
    "PYTHONIOENCODING": "utf-8:surrogateescape",
}
_WSL = {"WSL_UTF8": "1"}  # wsl.exe since 0.64; otherwise it writes UTF-16

ASK_FOR_UTF8: Mapping[str, str] = MappingProxyType(_PYTHON | _WSL)
"""The variables that make programs on Windows write UTF-8, which they do not by default when stdout is not a console.

bash's variables are not among them: without LANG, the bash of MSYS2 and Cygwin uses UTF-8 (Cygwin's user guide,
"Internationalization").
"""


def ask_for_utf8(taken: frozenset[str]) -> dict[str, str]:
    """Return the variables that ask programs on Windows for UTF-8.

    Args:
        taken: Variables that the host has. Their value for a program stays, and no variable is added for that program.
    """
    return {
        name: value for each in (_PYTHON, _WSL) if not taken & each.keys() for name, value in each.items()
    }


OF_ANOTHER_TERMINAL: frozenset[str] = frozenset(
    {
        # The terminal's abilities and size. Programs trust these variables before they ask the terminal.
        "COLUMNS",  # environ(7), ncurses(3x): precedes the terminal's own size
        "LINES",  # likewise
        "TERMCAP",  # termcap(5): precedes TERM in programs that use termcap; screen(1) sets it
        "COLORFGBG",  # rxvt(7): the terminal's colours, by which vim and others choose theirs
        # The terminal's name.
        "GPG_TTY",  # gpg-agent(1): the terminal on which pinentry asks
        "SSH_TTY",  # ssh(1)
        "WINDOWID",  # xterm(1): the terminal's window, to which w3m and others draw
        "TERM_PROGRAM",  # Apple's Terminal, iTerm2, WezTerm, VS Code, tmux(1) since 3.2: its name
        "TERM_PROGRAM_VERSION",
        "TERM_SESSION_ID",  # Apple's Terminal and iTerm2
        "TERMINAL_EMULATOR",  # JetBrains' terminal
        "LC_TERMINAL",  # iTerm2: its name, through SSH
        "LC_TERMINAL_VERSION",
        "INSIDE_EMACS",  # the Emacs manual, "Interactive Shell": programs omit what Emacs does not draw
        "VIM_TERMINAL",  # vim's terminal.txt
        "XTERM_VERSION",  # xterm(1)
        "XTERM_SHELL",
        "XTERM_LOCALE",
        "VTE_VERSION",  # VTE: GNOME's terminal and others; then shells write VTE's own sequences
        "GNOME_TERMINAL_SCREEN",  # gnome-terminal: the address of its service
        "GNOME_TERMINAL_SERVICE",
        "KONSOLE_VERSION",  # the Konsole handbook, "Environment variables"
        "KONSOLE_DBUS_SERVICE",
        "KONSOLE_DBUS_SESSION",
        "KONSOLE_DBUS_WINDOW",
        "KITTY_WINDOW_ID",  # kitty's glossary, "Environment variables"
        "KITTY_PID",
        "KITTY_LISTEN_ON",
        "KITTY_PUBLIC_KEY",
        "ALACRITTY_WINDOW_ID",  # alacritty(1)
        "ALACRITTY_SOCKET",
        "WEZTERM_PANE",  # WezTerm's CLI reference
        "WEZTERM_UNIX_SOCKET",
        "ITERM_SESSION_ID",  # iTerm2's documentation, "Variables"
        "ITERM_PROFILE",
        "WT_SESSION",  # Windows Terminal's FAQ; seen in WSL
        "WT_PROFILE_ID",
        # Multiplexers: a program that finds one of these variables wraps its sequences for a multiplexer.
        "TMUX",  # tmux(1)
        "TMUX_PANE",
        "STY",  # screen(1)
        "WINDOW",
        "ZELLIJ",  # Zellij's user guide, "Integration"
        "ZELLIJ_PANE_ID",
        "ZELLIJ_SESSION_NAME",
    }
)
"""The host variables that no command on a terminal has: they describe another terminal."""


def without(unset: frozenset[str], given: Mapping[str, str], *, on_windows: bool) -> Mapping[str, str]:
    """Return the variables without those that a command must not have. On Windows, names match in any case."""
    if not unset:
        return given
    if not on_windows:
        return {name: value for name, value in given.items() if name not in unset}
    folded = {name.upper() for name in unset}
    return {name: value for name, value in given.items() if name.upper() not in folded}


def settings_of(info: HostInfo, shell: ShellInfo, *, interactive: Interactive) -> Mapping[str, str]:
    """Return the variables of every command."""
    on_windows = info.os == "windows"
    calm = NON_INTERACTIVE_ON_WINDOWS if on_windows else NON_INTERACTIVE
    if interactive == "watched":
        calm = {name: value for name, value in calm.items() if name in HANG_GUARDS}
    # On Windows, SHELL is a variable of MSYS2, whose bash sets it; make takes it for the shell of its own commands.
    own = ask_for_utf8(info.variables) if on_windows else {"SHELL": shell.path}
    return {**({} if interactive is True else calm), **own}


def unset_of(shell: ShellInfo, *, interactive: Interactive) -> frozenset[str]:
    """Return the host variables that no command has."""
    removed = _LEADS_TO_A_PERSON if interactive == "watched" else REMOVED
    return shells.SHELLS[shell.kind].unset | (frozenset() if interactive is True else removed)
