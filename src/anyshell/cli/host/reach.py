"""The way to the host of ``--host``: its address as options, with questions to the person at the terminal."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ..failure import Failure
from ..printing import mention, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractAsyncContextManager

    from ... import Environment, SSHOptions
    from ...abc import HostInfo
    from ..process.signals import Interruption
    from .person import Person


class LinkLost(Failure):
    """The connection to the host broke on the way. ssh has the same exit code."""

    exit_code = 255


def parse(host: str | None) -> SSHOptions | None:
    """Read an address; ``None`` is this machine.

    Raises:
        BackendUnavailable: No backend knows that kind of address.
        InvalidCommand: It is malformed. A password in it is not repeated.
    """
    from ...backends import read_address

    return None if host is None else read_address(host)


class Target:
    """The way to a host, with the person at the terminal, if there is one, to answer what is asked on it.

    Attributes:
        options: The options of `Environment.detect`.
    """

    def __init__(self, host: str | SSHOptions | None) -> None:
        options = parse(host) if isinstance(host, str) else host
        self.options = options
        self._person: Person | None = None
        if options is None or isinstance(options, str):
            return
        import logging
        import sys

        # Of no use here, and a fifth of what asyncssh takes to import. This process is a program of its own.
        sys.modules.setdefault("asyncssh.crypto.x509", None)  # type: ignore[arg-type]  # means that it is not there
        # Otherwise its warnings would come out between those of anyshell.
        logging.getLogger("asyncssh").addHandler(logging.NullHandler())
        from .person import Person, can_be_asked

        if not can_be_asked():
            return  # so that an error says that the question could not be asked, and not that the user said no
        person = self._person = Person()
        self.options = replace(
            options,
            trust=person.trust,
            password=person.password,
            passphrase=person.passphrase,
            answer=person.answer,
        )

    def settle(self) -> None:
        """Take note that the login has succeeded, for later connections: see `Person.settle`."""
        if self._person is not None:
            self._person.settle()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Ask the person nothing meanwhile: a program has the terminal. What was answered is still good."""
        person = self._person
        if person is not None:
            person.is_away = True
        try:
            yield
        finally:
            if person is not None:
                person.is_away = False

    def share_terminal(self, room: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Have the terminal shared with what is drawn there: `room` is entered for the time of each question."""
        if self._person is not None:
            self._person.room = room

    @property
    def asks_each_time(self) -> bool:
        """Whether the person would be asked for every further login."""
        return self._person is not None and self._person.was_asked_by_server


def mention_notices(info: HostInfo) -> None:
    """Tell what a person should know of the way to a host."""
    mention(*map(printable, info.notices))


def notices(said: Iterable[str]) -> str:
    """Notices for a person, such as of the way to a host, as lines for stderr."""
    return "".join(f"anyshell: {printable(notice)}\n" for notice in said)


def detected(host: str | None, shell: str | None, cwd: str | None) -> Environment:
    """Detect a host, for the facts alone: the environment is closed."""
    from ..process import signals

    found: list[Environment] = []

    async def look(_: Interruption) -> int:
        from ... import Environment

        async with Environment.detect(Target(host).options, shell=shell, cwd=cwd) as env:
            mention_notices(env.info)
            found.append(env)
        return 0

    code = signals.run(look)
    if code:  # a signal came
        click.get_current_context().exit(code)
    return found[0]
