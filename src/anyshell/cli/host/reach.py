"""The options of the connection to the host of ``--host``, with questions to the person at the terminal."""

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
    """The connection to the host was lost. ssh has the same exit code."""

    exit_code = 255


def parse(host: str | None) -> SSHOptions | None:
    """Parse an address; ``None`` is this machine.

    Raises:
        BackendUnavailable: No backend knows that kind of address.
        InvalidCommand: The address is malformed. The message does not repeat a password of the address.
    """
    from ...backends import read_address

    return None if host is None else read_address(host)


class Target:
    """A host to connect to, and the person at the terminal, if any, who answers the questions of the login.

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

        # X.509 is not used here, and costs a fifth of asyncssh's import. A program may change its own modules.
        sys.modules.setdefault("asyncssh.crypto.x509", None)  # type: ignore[arg-type]  # means that it is not there
        # Otherwise asyncssh's warnings would be printed between anyshell's messages.
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
        """Record that the login has succeeded, for later connections: see `Person.settle`."""
        if self._person is not None:
            self._person.settle()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Ask the person nothing while a program has the terminal. Earlier answers stay valid."""
        person = self._person
        if person is not None:
            person.is_away = True
        try:
            yield
        finally:
            if person is not None:
                person.is_away = False

    def share_terminal(self, room: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Share the terminal with a drawing: the context manager of `room` is entered during each question."""
        if self._person is not None:
            self._person.room = room

    @property
    def asks_each_time(self) -> bool:
        """Whether every further login would ask the person again."""
        return self._person is not None and self._person.was_asked_by_server


def mention_notices(info: HostInfo) -> None:
    """Print the notices about the connection to a host."""
    mention(*map(printable, info.notices))


def notices(said: Iterable[str]) -> str:
    """Return notices for a person, such as about the connection to a host, as lines for stderr."""
    return "".join(f"anyshell: {printable(notice)}\n" for notice in said)


def detected(host: str | None, shell: str | None, cwd: str | None) -> Environment:
    """Detect a host, and return the closed environment, for its facts only."""
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
