"""``anyshell detect`` and ``anyshell describe``: the facts of a host, for a person and for a model."""

from __future__ import annotations

import click

from ..host.reach import detected
from ..options import json_option, place_options


@click.command(short_help="Show the facts of a host.")
@place_options
@json_option
def detect(*, host: str | None, shell: str | None, cwd: str | None, as_json: bool) -> None:
    """Show the facts of a host, and the shell that commands would run in.

    \b
    Examples:
      anyshell detect
      anyshell detect --shell zsh
      anyshell detect --host deploy@web-1
      anyshell detect --json | jq -r .shell.path
    \b
    Exit code:
      0      it was shown
      125    anyshell itself failed: there is no such shell, no such directory, or the host cannot
             be reached
      128+n  signal n ended it
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..printing import print_json, print_table

    env = detected(host, shell, cwd)
    info = env.info
    if as_json:
        facts = {name: getattr(info, name) for name in info.__slots__ if name != "shells_tried"}
        print_json({**facts, "shell": env.shell, "directory": env.directory})
        return
    print_table(
        [
            ("host", f"{info.hostname} ({env.host})"),
            ("system", f"{info.name} {info.version}".strip() + f" ({info.os}, {info.arch})"),
            ("container", info.container or ""),
            ("wsl", "yes" if info.wsl else ""),
            ("code page", "" if info.code_page is None else str(info.code_page)),
            ("user", info.user),
            ("home", info.home),
            ("directory", env.directory),
            ("shell", f"{env.shell.name} ({env.shell.path})"),
            ("programs", ", ".join(sorted(info.programs))),
        ]
    )


@click.command(short_help="Print the description of a host for a model.")
@place_options
def describe(*, host: str | None, shell: str | None, cwd: str | None) -> None:
    """Print the description of a host's shell for a model.

    \b
    Examples:
      anyshell describe
      anyshell describe --shell sh
    \b
    Exit code: as for 'anyshell detect'.
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    click.echo(detected(host, shell, cwd).description)
