"""The group of all commands, and the messages and exit codes of failures.

This module imports only click. Each command has its own module, which is imported when the command is named. A
command imports its dependencies when the command runs: ``anyshell --version`` must not pay for an event loop.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from .._exceptions import AnyshellError
from .failure import CommandGroup, Failure, cure_of
from .process.inherited import prepare, settle

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator
    from types import CodeType

_COMPLETION = "_ANYSHELL_COMPLETE"
"""The environment variable with which a shell requests completions; click derives the name from the program's name."""

_GROUPS = {
    "Run commands": {
        "run": "commands.run.command",
        "fleet": "commands.fleet.command",
        "console": "commands.run.console",
        "jobs": "commands.jobs",
        "undo": "commands.undo",
    },
    "Look at hosts, and copy": {
        "detect": "commands.host",
        "doctor": "commands.doctor.command",
        "cp": "commands.cp",
    },
    "For models and programs": {
        "call": "commands.tool",
        "schema": "commands.tool",
        "describe": "commands.host",
        "policy": "commands.policy",
        "mcp": ".mcp.command",
        "rpc": ".rpc.command",
    },
    "What was run and printed": {
        "artifacts": "commands.artifacts",
        "audit": "commands.audit",
        "replay": "commands.recordings.replay",
        "screenshot": "commands.recordings.screenshot",
    },
    "Your shell": {"completion": "commands.completion"},
}
"""Each command and the module that defines the command under that name, in the groups and the order of the help."""

_COMMANDS = {name: home for group in _GROUPS.values() for name, home in group.items()}


class MainGroup(CommandGroup):
    """The group of all commands; turns every foreseeable failure into one message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, the most used first."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; return ``None`` for an unknown name."""
        home = _COMMANDS.get(cmd_name)
        if home is None:
            return None
        command: click.Command = getattr(import_module(f".{home}", __package__), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in their groups."""
        for title, group in _GROUPS.items():
            with formatter.section(title):
                found = ((name, self.get_command(ctx, name)) for name in group)
                formatter.write_dl(
                    [(name.ljust(10), each.get_short_help_str(100)) for name, each in found if each]
                )

    def main(
        self,
        args: Any = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program. Without `args`, anyshell is the process's own program, so repair signals and descriptors first."""
        if args is None:
            prepare()
            import logging

            # asyncio warns of each write to a lost connection; anyshell reports the loss in its own words.
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)
            logging.getLogger("anyshell").addHandler(_log_handler())
        # The given command runs unchanged. On Windows, click would expand variables, ~ and * in the command.
        extra.setdefault("windows_expand_args", False)
        if _COMPLETION in os.environ:
            import_module(".commands.completion", __package__)  # registers our completion with click
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            with _failures():
                code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.Exit as end:
            code = end.exit_code
        except click.Abort:
            code = 130
        except click.ClickException as error:
            from .printing import printable_lines

            code = error.exit_code
            said = StringIO()
            error.show(said)
            # Some messages of click repeat arguments unescaped.
            with suppress(OSError):  # a failure to print changes nothing
                text = said.getvalue().rstrip("\n") + cure_of(error) + "\n"
                click.echo(printable_lines(text.replace("\n\t", " ")), nl=False, err=True)
        settle(sys.stdout)
        settle(sys.stderr)
        # At exit, the interpreter searches all loaded objects for reference cycles. No cycle there is worth the search.
        gc.freeze()
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the options of the program itself."""
        from .help import colour  # the import also sets the formatter of every help

        kwargs.setdefault("color", colour())
        with _failures():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the named command."""
        with _failures():
            return super().invoke(ctx)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except AnyshellError as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
    except RuntimeError as error:
        if str(error) != "can't start new thread":
            raise
        raise Failure("no thread can be started: too many processes (ulimit -u)") from error
    except BrokenPipeError:
        raise click.exceptions.Exit(141) from None
    except OSError as error:
        if (
            _raised_by(error) is click.echo.__code__
        ):  # click prints its own help in the same way; no other code prints on stdout
            from .process.descriptors import is_deserted

            if is_deserted(error, 1):
                raise click.exceptions.Exit(141) from None
            raise Failure(f"cannot write to stdout: {error.strerror}") from error
        from .printing import printable

        if isinstance(error, FileNotFoundError) and not error.filename:  # as os.getcwd() raises it
            raise Failure("the current directory has been removed: change to one that is there") from error
        where = f": {error.filename}" if error.filename else ""
        raise Failure(printable(f"{error.strerror or error}{where}")) from error


def _log_handler() -> logging.Handler:
    """Return a handler that prints the library's log records as messages of this program."""
    import logging

    class MessageHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            from .printing import mention

            mention(self.format(record))

    return MessageHandler(logging.WARNING)


def _raised_by(error: BaseException) -> CodeType | None:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return None if frame is None else frame.tb_frame.f_code


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"anyshell {__version__}")
        ctx.exit()


@click.group(
    cls=MainGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """Run a command in a shell; whatever it starts is stopped or reported.

    With this program, people run and inspect what models run through anyshell.

    \b
    Examples:
      anyshell run --timeout 60 -- make test
      anyshell run -- 'grep -r TODO src | wc -l'
      anyshell run --host deploy@web-1 -- uptime
      anyshell run --background -- npm run dev
      anyshell fleet --hosts web-1,web-2,db-1 -- uptime
      anyshell cp -r site web-1:/srv/www
      anyshell detect
      anyshell call '{"command": "git status --short"}'
      anyshell doctor

    \b
    Completion, for bash, and for zsh after compinit ('anyshell completion --help'):
      eval "$(anyshell completion bash)"
      eval "$(anyshell completion zsh)"

    \b
    Exit codes: 'run' and 'console' give the command's own; for all others
      0      yes: it was done, it holds, or it was found
      1      no: it failed, or not all of it was done; it does not hold; nothing was found
      2      wrong usage: nothing was done
      124    run: the time was over
      125    anyshell itself failed, or a host cannot be reached: nothing was started there
      128+n  signal n ended the command or anyshell (130: Ctrl-C; 141: stdout has no reader)
      255    the connection to a host was lost
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
