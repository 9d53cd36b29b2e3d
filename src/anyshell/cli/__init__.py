"""The human's door: the program ``anyshell``.

Only click is imported here. Each command is a module of its own, imported when it is named, and imports what
it needs when it runs: ``anyshell --version`` must not pay for an event loop.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from .._exceptions import AnyshellError

OWN_FAILURE = 125
"""The exit code that says: anyshell itself failed. What GNU's timeout, env and nohup use, and docker run."""

_COMMANDS = {
    "run": "run",
    "detect": "host",
    "describe": "host",
    "doctor": "doctor",
    "schema": "tool",
    "call": "tool",
    "artifacts": "artifacts",
    "completion": "completion",
}
"""Each command, and the module that has it under that name. In the order of the help."""


class Failure(click.ClickException):
    """anyshell could not do its part. The message says what was tried and what to do."""

    exit_code = OWN_FAILURE

    def show(self, file: Any = None) -> None:
        """Print the message the way Unix programs do."""
        click.echo(f"anyshell: {self.format_message()}", file=file, err=file is None)


class Program(click.Group):
    """The group of all commands; turns every foreseeable failure into one message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands, the most used first."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        home = _COMMANDS.get(cmd_name)
        if home is None:
            return None
        command: click.Command = getattr(import_module(f".{home}", __name__), cmd_name)
        return command

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        _fill_standard_descriptors()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except AnyshellError as error:
            raise Failure(str(error)) from error
        except KeyboardInterrupt:
            ctx.exit(130)
        except BrokenPipeError:
            _discard_stdout()
            ctx.exit(141)
        except OSError as error:
            _discard_stdout()
            where = f": {error.filename}" if error.filename else ""
            raise Failure(f"{error.strerror or error}{where}") from error


def _fill_standard_descriptors() -> None:
    """Put /dev/null where a standard descriptor is closed.

    Otherwise the next thing that is opened takes its number, and output would be written into that.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: exactly `fd`


def _discard_stdout() -> None:
    """Give what is still buffered for stdout somewhere to go.

    The interpreter flushes at its end and would complain of the same failure once more
    (https://docs.python.org/3/library/signal.html#note-on-sigpipe).
    """
    try:
        fd = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return  # closed from the start, or replaced by something without a descriptor
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, fd)
    os.close(null)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"anyshell {version('anyshell')}")
        ctx.exit()


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """Run a command in a shell, and leave nothing of it behind unsaid.

    What a model does through anyshell, a person can do and look into with this program.

    \b
    Examples:
      anyshell run --timeout 60 -- make test
      anyshell run -- 'grep -r TODO src | wc -l'
      anyshell detect
      anyshell call '{"command": "git status --short"}'
      anyshell doctor

    \b
    Completion, for bash (see 'anyshell completion --help' for others):
      eval "$(_ANYSHELL_COMPLETE=bash_source anyshell)"

    \b
    Exit codes: the command's own for 'run'; 2 for wrong usage; 125 when anyshell itself failed.
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
