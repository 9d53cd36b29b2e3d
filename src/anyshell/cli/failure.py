"""What a failure of anyshell itself is: its exit code, and how it is said."""

from __future__ import annotations

from typing import Any

import click

OWN_FAILURE = 125  # no bound
"""The exit code that says: anyshell itself failed. What GNU's timeout, env and nohup use, and docker run."""


class Failure(click.ClickException):
    """anyshell could not do its part. The message says what was tried and what to do."""

    exit_code = OWN_FAILURE

    def show(self, file: Any = None) -> None:
        """Print the message the way Unix programs do."""
        from .printing import printable_lines

        click.echo(f"anyshell: {printable_lines(self.format_message())}", file=file, err=file is None)
