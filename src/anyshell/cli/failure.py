"""The exit code and the message of a failure of anyshell itself, and the message for a command that does not exist."""

from __future__ import annotations

from typing import Any

import click

OWN_FAILURE = 125  # no bound
"""The exit code of a failure of anyshell itself, the same as of GNU's timeout, env and nohup, and of docker run."""


class Failure(click.ClickException):
    """A failure of anyshell itself. The message names the attempt and the remedy."""

    exit_code = OWN_FAILURE

    def show(self, file: Any = None) -> None:
        """Print the message the way Unix programs do."""
        from .printing import printable_lines

        click.echo(f"anyshell: {printable_lines(self.format_message())}", file=file, err=file is None)


class CommandGroup(click.Group):
    """A group of commands that suggests a command for an unknown name. click itself knows only imported commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; fail with a suggestion for an unknown name."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches
            from shutil import which

            near = get_close_matches(name.lower(), known, 1, 0.65)
            meant = f"Did you mean {near[0]}?" if near else f"The commands are {', '.join(known)}."
            if name == "help" or (name == "version" and ctx.parent is None):
                words = (*args[1:2], "--help") if name == "help" else ("--version",)
                meant = f"Write it as an option: {ctx.command_path} {' '.join(words)}"
            elif not near and ctx.parent is None and which(name):
                meant = f"To run that program: anyshell run -- {name}"
            ctx.fail(f"No such command {name!r}. {meant}")
        return super().resolve_command(ctx, args)


def cure_of(error: click.ClickException) -> str:
    """Return the remedy to append to a message of click that names only the fault; empty without a remedy."""
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return ""
    arguments = {each.name for each in error.ctx.command.params if isinstance(each, click.Argument)}
    options = [
        name for each in error.ctx.command.params if isinstance(each, click.Option) for name in each.opts
    ]
    if isinstance(error, click.NoSuchOption):
        if "commands" in arguments:
            return " If it is the command's: put quotes around the command."
        if error.option_name == "-c" and "command" in arguments:
            return f" The command needs none: {error.ctx.command_path} -- 'TEXT'"
        other = error.option_name.swapcase()
        return f" Did you mean '{other}'?" if other in options else ""
    if error.message.startswith("Got unexpected extra argument"):
        for option, what in (("--directory", "a directory"), ("--to", "a checkpoint"), ("--host", "a host")):
            if option in options:
                return f"; {what} is given by {option}"
    return ""
