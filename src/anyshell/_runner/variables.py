"""Variables for commands that run unattended: nothing waits for a person, nothing floods.

Three rules chose them. A program does the work that it was told to, no more and no less: where it can either
refuse to ask or take yes for an answer, it refuses. What only a person can answer fails at once, so that its
message is read. And a variable is here only if its program documents it; the comment beside it says where.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from .. import shells

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._types import HostInfo, ShellInfo

Interactive = bool | Literal["watched"]
"""The variables of the host that stay as they are: none of those below, all, or, where a person watches on a terminal, all but
those that guard against hanging: a command without a terminal waits as long for an editor."""

# Bare names, looked up on PATH: true and false are in /bin on one system, in /usr/bin on the next. git, ssh
# and the pagers' callers all search PATH for them.
_PAGER = "cat"

# An editor that succeeds and changes nothing. What has a text already goes on with it (git merge, git rebase
# --continue, kubectl edit), what needs one is left empty and aborts with a message of its own (git commit).
# An editor that fails would break the first kind without helping the second.
_EDITOR = "true"

# Has no answer and says so at once.
_NO_ANSWER = "false"

_GUARDS: dict[str, str] = {
    # Pagers. Each of these wins over PAGER in its program, so PAGER alone would not do.
    "PAGER": _PAGER,  # environ(7), man(1), git(1), psql(1) and many more
    "MANPAGER": _PAGER,  # man(1)
    "GIT_PAGER": _PAGER,  # git-var(1)
    "SYSTEMD_PAGER": _PAGER,  # systemctl(1), journalctl(1)
    "BAT_PAGER": _PAGER,  # bat's README, "Using a different pager"
    "DELTA_PAGER": _PAGER,  # delta's manual, "Environment variables"
    "GH_PAGER": _PAGER,  # gh-environment(1)
    "PSQL_PAGER": _PAGER,  # psql(1)
    "AWS_PAGER": _PAGER,  # AWS CLI user guide, "Client-side pager"
    # For programs that call less by name: quit if it fits on one screen, pass colours through, leave the screen alone, and
    # do not wait for RETURN because TERM is dumb.
    "LESS": "-FRXd",  # less(1)
    # Editors.
    "EDITOR": _EDITOR,  # environ(7)
    "VISUAL": _EDITOR,  # environ(7)
    "GIT_EDITOR": _EDITOR,  # git-var(1); wins over core.editor
    # Not the other: git would take a list of commits that was not edited as it is, and rebase -i say that it has
    # succeeded. So the editor ends at once, and git says that there was a problem with it.
    "GIT_SEQUENCE_EDITOR": _NO_ANSWER,  # git-rebase(1), sequence.editor; git asks it before GIT_EDITOR
    "GH_EDITOR": _EDITOR,  # gh-environment(1)
    "KUBE_EDITOR": _EDITOR,  # kubectl edit --help
    "HGEDITOR": _EDITOR,  # hg help environment
    "SVN_EDITOR": _EDITOR,  # Subversion book, "Environment variables"
    "SUDO_EDITOR": _EDITOR,  # sudo(8), sudoedit
    # Passwords and host keys. A terminal is asked only where there is one, hence the *_REQUIRE.
    "GIT_TERMINAL_PROMPT": "0",  # git(1)
    "GIT_ASKPASS": _NO_ANSWER,  # git(1), gitcredentials(7)
    "SSH_ASKPASS": _NO_ANSWER,  # ssh(1)
    "SSH_ASKPASS_REQUIRE": "force",  # ssh(1), since OpenSSH 8.4: ask that program even if there is a terminal
    "GCM_INTERACTIVE": "false",  # Git Credential Manager, docs/environment.md
    # Package managers that ask.
    "DEBIAN_FRONTEND": "noninteractive",  # debconf(7)
    "APT_LISTCHANGES_FRONTEND": "none",  # apt-listchanges(1): it shows news in a pager otherwise
    "NEEDRESTART_MODE": "l",  # needrestart(1), -r: list what should be restarted; do not ask, do not restart
    "PIP_NO_INPUT": "1",  # pip's user guide, --no-input
    "PDM_NON_INTERACTIVE": "1",  # pdm --help, --non-interactive
    "npm_config_yes": "true",  # npm's configuration, yes: npx fetches what it was told to run
    "COREPACK_ENABLE_DOWNLOAD_PROMPT": "0",  # Corepack's README, "Environment variables"
    "COMPOSER_NO_INTERACTION": "1",  # Composer's CLI page, "Environment variables"
    "HOMEBREW_NO_ASK": "1",  # brew(1), "Environment"; from Homebrew 6 on it asks before it installs
    "PERL_MM_USE_DEFAULT": "1",  # ExtUtils::MakeMaker(3pm): questions take their default
    "NG_CLI_ANALYTICS": "false",  # Angular CLI, "ng analytics": it asks for leave at the first run
    # Clouds and hosting.
    "TF_INPUT": "0",  # Terraform CLI, "Environment variables"
    "GH_PROMPT_DISABLED": "1",  # gh-environment(1)
    "GLAB_NO_PROMPT": "true",  # glab's README; NO_PROMPT, its old name, makes it print a warning
    "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",  # gcloud topic configurations, core/disable_prompts: defaults are taken
    "AWS_CLI_AUTO_PROMPT": "off",  # AWS CLI user guide, "Command prompting"
    "COMPOSE_MENU": "false",  # Docker Compose, "Pre-defined environment variables": up listens to keys otherwise
    "PLAYWRIGHT_HTML_OPEN": "never",  # Playwright, "Reporters": after a failure it serves a report otherwise
}

_CALM: dict[str, str] = {
    # Variables by which a program recognises its surroundings.
    "TERM": "dumb",  # terminfo(5): no cursor addressing, so no full-screen programs
    # "true" rather than "1": Angular and others parse a boolean, the rest look whether it is set. Some tools
    # become stricter under CI (pnpm and Yarn keep the lock file as it is); env={"CI": ""} undoes that.
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
"""Set for every command unless its environment is interactive; a caller's own variables win over it."""

# What is cat on Windows depends: to PowerShell it is Get-Content, which `help` would pipe into and fail. Empty means no
# pager to every one of these (git(1), psql(1), gh, bat, delta and the AWS CLI as above), and to `help` the more.com of
# Windows, which does not wait for a key where stdout is no console.
_NO_PAGER = {name: "" for name, value in _GUARDS.items() if value == _PAGER}

NON_INTERACTIVE_ON_WINDOWS: Mapping[str, str] = MappingProxyType(_GUARDS | _NO_PAGER | _CALM)
"""The non-interactive set of a Windows host. Git for Windows has its editors; a program without one fails, and says so."""

HANG_GUARDS: frozenset[str] = frozenset(_GUARDS)
"""The variables of `NON_INTERACTIVE` that keep a command from waiting for a person. A model cannot set these."""

# Each of these would undo the set where the host has it. Setting it to something else does not help: it counts
# when it is set at all, or goes before one that is set.
_LEADS_TO_A_PERSON = frozenset(
    {
        "GPG_TTY",  # gpg-agent(1): on which terminal pinentry asks; it paints over whatever stands there, and waits
        "SSH_TTY",  # ssh(1): what takes it for a sign of a person asks there
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
"""Variables of the host that no command has unless its environment is interactive, or the caller sets them."""

NOT_FOR_MODELS: frozenset[str] = HANG_GUARDS | _LEADS_TO_A_PERSON
"""Variables that a model cannot set unless the environment is interactive: they make a command wait for a person."""

_PYTHON = {
    "PYTHONUTF8": "1",  # python(1), UTF-8 mode: files and arguments too
    # For Pythons that know of no such mode; with its way to carry bytes that are not UTF-8.
    "PYTHONIOENCODING": "utf-8:surrogateescape",
}
_WSL = {"WSL_UTF8": "1"}  # wsl.exe since 0.64; it writes UTF-16 otherwise

ASK_FOR_UTF8: Mapping[str, str] = MappingProxyType(_PYTHON | _WSL)
"""Variables that make programs on Windows write UTF-8, which they do not by themselves when stdout is no console.

bash's are not among them: without LANG, those of MSYS2 and Cygwin speak UTF-8 (Cygwin's user guide, "Internationalization").
"""


def ask_for_utf8(taken: frozenset[str]) -> dict[str, str]:
    """The variables by which programs on Windows are asked for UTF-8.

    Args:
        taken: Variables that the host has. What they say of a program holds, and nothing is added to it.
    """
    return {
        name: value for each in (_PYTHON, _WSL) if not taken & each.keys() for name, value in each.items()
    }


OF_ANOTHER_TERMINAL: frozenset[str] = frozenset(
    {
        # Its abilities and its size. Programs believe these before they ask the terminal itself.
        "COLUMNS",  # environ(7), ncurses(3x): goes before the terminal's own size
        "LINES",  # likewise
        "TERMCAP",  # termcap(5): goes before TERM in programs that use termcap; screen(1) sets it
        "COLORFGBG",  # rxvt(7): the colours that it has; vim and others choose theirs by that
        # Its name.
        "GPG_TTY",  # gpg-agent(1): where pinentry asks, and paints
        "SSH_TTY",  # ssh(1)
        "WINDOWID",  # xterm(1): its window, to which w3m and others draw
        "TERM_PROGRAM",  # Apple's Terminal, iTerm2, WezTerm, VS Code, tmux(1) since 3.2: its name
        "TERM_PROGRAM_VERSION",
        "TERM_SESSION_ID",  # Apple's Terminal and iTerm2
        "TERMINAL_EMULATOR",  # JetBrains' terminal
        "LC_TERMINAL",  # iTerm2: its name, through SSH
        "LC_TERMINAL_VERSION",
        "INSIDE_EMACS",  # the Emacs manual, "Interactive Shell": programs leave out what Emacs does not draw
        "VIM_TERMINAL",  # vim's terminal.txt
        "XTERM_VERSION",  # xterm(1)
        "XTERM_SHELL",
        "XTERM_LOCALE",
        "VTE_VERSION",  # VTE: GNOME's terminal and others; shells write its own sequences then
        "GNOME_TERMINAL_SCREEN",  # gnome-terminal: by which it is spoken to
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
        # Multiplexers inside it: a program that finds one of these sends its sequences through a multiplexer.
        "TMUX",  # tmux(1)
        "TMUX_PANE",
        "STY",  # screen(1)
        "WINDOW",
        "ZELLIJ",  # Zellij's user guide, "Integration"
        "ZELLIJ_PANE_ID",
        "ZELLIJ_SESSION_NAME",
    }
)
"""Variables of the host that no command on a terminal has: they speak of another one."""


def without(unset: frozenset[str], given: Mapping[str, str], *, on_windows: bool) -> Mapping[str, str]:
    """Variables but those that a command is not to have. Windows knows them in any case."""
    if not unset:
        return given
    if not on_windows:
        return {name: value for name, value in given.items() if name not in unset}
    folded = {name.upper() for name in unset}
    return {name: value for name, value in given.items() if name.upper() not in folded}


def settings_of(info: HostInfo, shell: ShellInfo, *, interactive: Interactive) -> Mapping[str, str]:
    """The variables of every command."""
    on_windows = info.os == "windows"
    calm = NON_INTERACTIVE_ON_WINDOWS if on_windows else NON_INTERACTIVE
    if interactive == "watched":
        calm = {name: value for name, value in calm.items() if name in HANG_GUARDS}
    # There, it is a word of MSYS2's, whose bash sets it by itself; make takes it for the shell of its own commands.
    own = ask_for_utf8(info.variables) if on_windows else {"SHELL": shell.path}
    return {**({} if interactive is True else calm), **own}


def unset_of(shell: ShellInfo, *, interactive: Interactive) -> frozenset[str]:
    """The variables of the host that no command has."""
    removed = _LEADS_TO_A_PERSON if interactive == "watched" else REMOVED
    return shells.SHELLS[shell.kind].unset | (frozenset() if interactive is True else removed)
