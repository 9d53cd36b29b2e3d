"""``anyshell completion``: the completion of anyshell's commands and options in a shell.

click does the greater part. This module adds ``--option=value``, and the paths of hosts. bash splits ``--option=value``
into three words and completes the last word. zsh and fish keep one word and want a whole word back. click returns the
value alone, so zsh would replace ``--shell=zs`` by ``zsh``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from click import shell_completion
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    _Base = shell_completion.ShellComplete
else:
    _Base = object


class _Completion(_Base):
    """The parts that the completion of every shell needs."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the typed words and the unfinished word, from the variables of the completion script."""
        if "COMP_WORDS" not in os.environ or not _is_number(os.environ.get("COMP_CWORD", "")):
            raise click.UsageError("COMP_WORDS and COMP_CWORD are missing, which the completion script sets")
        return super().get_completion_args()

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return the completions of the last word."""
        if args[:1] == ["run"] and "--" in args:
            elsewhere = any(word.partition("=")[0] == "--host" for word in args[: args.index("--")])
            return [] if elsewhere else [CompletionItem(incomplete, type="file")]
        items = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if equals and option.startswith("--"):
            for item in items:
                if item.type == "plain":
                    item.value = f"{option}={item.value}"
        return items


class BashComplete(_Completion, shell_completion.BashComplete):
    """Completion in bash, which splits words at an equals sign and at a colon if COMP_WORDBREAKS contains them."""

    source_template = shell_completion.BashComplete.source_template.replace(
        "COMPREPLY+=($value)",
        # A path follows the colon of a host.
        "COMPREPLY+=($value); [[ $value == *: ]] && compopt -o nospace",
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the typed words, joined again where bash has split a word."""
        args, incomplete = super().get_completion_args()
        whole: list[str] = []
        for word in [*args, incomplete]:
            before = whole[-1] if whole else ""
            option = before.startswith("--") and before != "--" and (word == "=" or before.endswith("="))
            path = args[:1] == ["cp"] and before != "cp" and (word == ":" or before.endswith(":"))
            if option or path:
                whole[-1] += word
            else:
                whole.append(word)
        self._taken_apart = whole[-1] != incomplete
        return whole[:-1], whole[-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return the completions of the last word: after a split, bash completes only the text after the equals sign."""
        items = super().get_completions(args, incomplete)
        for item in items:
            if self._taken_apart and item.type == "plain" and "=" in item.value:
                item.value = item.value.partition("=")[2]
        return items


class ZshComplete(_Completion, shell_completion.ZshComplete):
    """Completion in zsh, which completes paths itself, but would take ``--cwd=src`` as a whole for a path."""

    source_template = shell_completion.ZshComplete.source_template.replace(
        "_path_files", "compset -P 1 '--*='; _path_files"
    ).replace(
        "compadd -U -V unsorted -a completions",
        # A path follows the colon of a host.
        "if [[ $completions[-1] == *: ]]; then compadd -U -S '' -V unsorted -a completions; "
        "else compadd -U -V unsorted -a completions; fi",
    )


class FishComplete(_Completion, shell_completion.FishComplete):
    """Completion in fish, which passes the last word where bash and zsh pass the number of the word."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the typed words and the unfinished word."""
        if "COMP_WORDS" not in os.environ or "COMP_CWORD" not in os.environ:
            raise click.UsageError("COMP_WORDS and COMP_CWORD are missing, which the completion script sets")
        return shell_completion.FishComplete.get_completion_args(self)


_SHELLS: dict[str, type[shell_completion.ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}

for _name, _class in _SHELLS.items():
    shell_completion.add_completion_class(_class, _name)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


@click.command(short_help="Print the script for completing in a shell.")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, /, *, shell: str) -> None:
    """Print the script that lets SHELL complete anyshell's commands and options.

    \b
    Examples, for good (zsh needs 'autoload -U compinit; compinit' in ~/.zshrc):
      anyshell completion bash >> ~/.bashrc
      anyshell completion zsh > "${fpath[1]}/_anyshell"
      anyshell completion fish > ~/.config/fish/completions/anyshell.fish
    \b
    For this one session, in bash, and in zsh after 'autoload -U compinit; compinit':
      eval "$(anyshell completion bash)"
      eval "$(anyshell completion zsh)"
    \b
    Exit code:
      0  it was printed
      2  wrong usage
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    script = _SHELLS[shell](ctx.find_root().command, {}, "anyshell", "_ANYSHELL_COMPLETE")
    # Fill in the template here: source() would first run bash, only to check the version of bash.
    click.echo(script.source_template % script.source_vars())
