"""``anyshell completion``: the shell's half of completing our commands and options."""

from __future__ import annotations

import click


@click.command(short_help="Print the script for completing in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, /, *, shell: str) -> None:
    """Print the script that lets SHELL complete anyshell's commands and options.

    \b
    Examples:
      anyshell completion bash >> ~/.bashrc
      anyshell completion zsh > "${fpath[1]}/_anyshell"
      anyshell completion fish > ~/.config/fish/completions/anyshell.fish
    \b
    For this one session, in bash:
      eval "$(_ANYSHELL_COMPLETE=bash_source anyshell)"
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kind = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}[shell]
    script = kind(ctx.find_root().command, {}, "anyshell", "_ANYSHELL_COMPLETE")
    # The template itself: source() would first run bash, only to see whether it is new enough.
    click.echo(script.source_template % script.source_vars())
