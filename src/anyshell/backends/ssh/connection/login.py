"""The callbacks of asyncssh while it connects: the host's key, and the credentials."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any, TypeVar

import asyncssh
from asyncssh.public_key import (
    get_default_certificate_algs,
    get_default_public_key_algs,
    get_public_key_algs,
)

from ...._exceptions import InvalidCommand
from .config import match_pattern
from .hostkeys import HostKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from .credentials import Keys, Offer, Secrets
    from .hostkeys import KnownHost, KnownKey, Verdict
    from .options import SSHOptions
    from .settings import Settings

BANNER_CHARACTERS = 300
"""Characters of a server's text that an error repeats; the rest is cut off."""

GATHERED = 64 * 1024
"""Bytes of packets that are written to a host together, when they are sent in one step of the event loop; more go at once."""

_Answer = TypeVar("_Answer")


class Gathered(asyncio.Transport):
    """A connection's transport that writes the packets of one step of the event loop together.

    asyncssh writes each packet by itself, and before each packet another without meaning. For a command, that makes ten
    system calls and network packets instead of four, and each of them wakes the server.

    Args:
        transport: Writes the packets.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._packets: list[bytes] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write a packet at the end of this step."""
        if not self._packets:
            asyncio.get_running_loop().call_soon(self.flush)
        self._packets.append(bytes(data))
        self._size += len(data)
        if self._size >= GATHERED:
            self.flush()

    def flush(self) -> None:
        """Write the waiting bytes."""
        if self._packets:
            data, self._packets, self._size = b"".join(self._packets), [], 0
            self._transport.write(data)

    def abort(self) -> None:
        """Close at once. Data written before goes out as far as the system takes it, as with any transport."""
        self.flush()
        self._transport.abort()

    def close(self) -> None:
        """Close after all data is written."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the transport is being closed."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact about the connection's transport."""
        return self._transport.get_extra_info(name, default)


class LoginClient(asyncssh.SSHClient):
    """The callbacks of asyncssh while it connects. A password or answer that was right is not given a second time."""

    def __init__(
        self,
        settings: Settings,
        options: SSHOptions,
        known: KnownHost,
        secrets: Secrets,
        *,
        certificates: bool,
        last: bool = True,
    ) -> None:
        self.known = known
        self.connection: asyncssh.SSHClientConnection | None = None
        self.shown: HostKey | None = None
        """The host's plain key, once it was judged."""
        self.accepted: HostKey | None = None
        """The host's plain key, if it is new and was accepted without asking."""
        self.authenticating = False
        self.asking = False
        self.expired = False
        self.failure: BaseException | None = None
        self.methods: list[str] = []
        self.tried: list[str] = []
        self.lost = False
        self.on_lost: Callable[[], object] = lambda: None
        """Called when the connection is gone, whichever side closed it."""
        self.banner = ""
        self._settings = settings
        self._options = options
        self._secrets = secrets
        self._certificates = certificates
        self._last = last
        self._clock: asyncio.Timeout | None = None
        self._offers: AsyncIterator[Offer] | None = None
        self._keys: Keys | None = None
        self._passwords = 0
        self._given: set[str] = set()
        self._challenges = 0
        self._password: str | None = None

    def begin(self, clock: asyncio.Timeout, keys: Keys) -> None:
        """Start; the clock bounds the connecting, and later the login."""
        self._clock = clock
        self._keys = keys

    async def ask(self, question: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Await a person's answer, one question at a time, while the clock of the login stands still."""
        assert self._clock is not None
        now = asyncio.get_running_loop().time
        when = self._clock.when()
        left = None if when is None else max(0.0, when - now())
        self._clock.reschedule(None)
        self.asking = True
        try:
            async with self._secrets.asking:
                answer = await question()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.failure = error
            raise
        self.asking = False
        with contextlib.suppress(RuntimeError):  # the login is over: it was cancelled meanwhile
            self._clock.reschedule(None if left is None else now() + left)
        return answer

    # --- the connection ---

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Store the connection that the server accepted; from now on the clock bounds the login."""
        self.connection = conn
        if conn._transport is not None:  # asyncssh has no other way to set the transport
            conn._transport = Gathered(conn._transport)
        if self._clock is not None:
            self._clock.reschedule(asyncio.get_running_loop().time() + self._options.login_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the connection is gone."""
        self.lost = True
        self.on_lost()

    def auth_banner_received(self, msg: str, lang: str) -> None:
        """Keep the beginning of the server's banner."""
        self.banner = (self.banner + msg)[:BANNER_CHARACTERS]

    # --- the host's key ---

    def known_hosts(
        self, host: str, addr: str, port: int | None
    ) -> tuple[list[Any], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]:
        """Return the keys by which asyncssh checks certificates. All plain keys go to `validate_host_public_key`."""
        if not self._certificates:
            return [], [], []
        return [], _importable(self.known.authorities), _importable(self.known.revoked)

    def host_key_algorithms(self) -> list[str]:
        """Return the algorithms to negotiate.

        The types of the known keys come first, so that a host with several keys shows a known one.
        """
        possible = [*names(get_default_certificate_algs()), *names(get_public_key_algs())]
        plain = [name for name in names(get_default_public_key_algs()) if name != "ssh-rsa"]  # SHA-1
        written = self._settings.algorithms.get("hostkeyalgorithms")
        if written is not None:
            plain = choose_algorithms(written, possible, plain)
            plain = [name for name in plain if "-cert-" not in name] or plain
        if written is None or written[0] in "+-":
            known = self.known.preferred_types()
            plain.sort(key=lambda name: _type_of(name) not in known)
        certificates = names(get_default_certificate_algs()) if self._certificates else []
        return [*certificates, *plain]

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Judge the key that the host really shows."""
        self.shown = HostKey(key.algorithm.decode("ascii"), key.public_data)
        verdict: Verdict = self.known.judge(self.shown)
        if verdict == "unknown" and self._settings.host_key_policy == "accept-new":
            self.accepted = self.shown
            return True
        return verdict == "trusted"

    # --- logging in ---

    def _note_methods(self) -> None:
        self.authenticating = True
        assert self.connection is not None
        for method in self.connection.get_server_auth_methods():
            if method not in self.methods:
                self.methods.append(method)

    async def public_key_auth_requested(self) -> list[asyncssh.SSHKeyPair] | None:
        """Return the next key."""
        self._note_methods()
        assert self._keys is not None
        if self._offers is None:
            self._offers = self._keys.offers()
        async for offer in self._offers:
            self.tried.append(f"the key {offer.label}")
            return [offer.pair]
        return None

    async def password_auth_requested(self) -> str | None:
        """Return the password: that of the options, once; otherwise a person's, three times at most."""
        self._note_methods()
        prompt = f"{self._settings.login}'s password: "
        return await self._ask_password("password", prompt)

    async def password_change_requested(self, prompt: str, lang: str) -> Any:
        """Refuse to change a password."""
        self.expired = True
        return NotImplemented

    async def kbdint_auth_requested(self) -> str | None:
        """Report whether questions would be answered: an empty string for yes, ``None`` for no."""
        self._note_methods()
        if self._challenges >= self._settings.prompts:
            return None
        answerable = self._options.answer is not None or self._has_password("keyboard-interactive")
        return "" if answerable else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> Sequence[str] | None:
        """Answer a round of questions; a password also answers a single question whose answer is hidden."""
        if not prompts:
            return []
        self._challenges += 1
        if self._challenges > self._settings.prompts:
            return None
        answer = self._options.answer
        where = f"({self._settings.login}) "
        hidden = len(prompts) == 1 and not prompts[0][1]
        # The password answers a question for the password, and is remembered. Another question may ask for a
        # code that is good once: a person must see the question each time.
        asks_password = hidden and (answer is None or "password" in prompts[0][0].lower())
        if asks_password and self._has_password("keyboard-interactive"):
            reply = await self._ask_password("keyboard-interactive", where + prompts[0][0])
            return None if reply is None else [reply]
        if answer is not None:
            text = "\n".join(part for part in (where.strip(), name, instructions) if part)
            self.tried.append("answers to its questions")
            replies = await self.ask(lambda: answer(text, tuple(prompts)))
            if replies is not None and len(replies) != len(prompts):
                self.failure = InvalidCommand(f"answer must give {len(prompts)} answers, not {len(replies)}")
                raise self.failure
            return replies
        return None

    def auth_completed(self) -> None:
        """Remember the password that was right."""
        if self._password is not None and self.connection is not None:
            self._secrets.passwords[self._place] = self._password

    @property
    def _place(self) -> tuple[str, str, int]:
        return self._settings.user, self._settings.host, self._settings.port

    def _has_password(self, method: str) -> bool:
        password = self._options.password
        if isinstance(password, str):
            return self._last and method not in self._given
        return password is not None and self._passwords < self._settings.prompts

    async def _ask_password(self, method: str, prompt: str) -> str | None:
        password = self._options.password
        if password is None or not self._has_password(method):
            return None
        if isinstance(password, str):
            self._given.add(method)
            self.tried.append(f"the password ({method})")
            return password
        self._passwords += 1
        known = self._secrets.passwords.get(self._place)
        if self._passwords == 1 and known is not None:
            self.tried.append(f"the password ({method})")
            return known
        answer = await self.ask(lambda: password(prompt))
        if answer is not None:
            self.tried.append(f"a password ({method})")
        # Other answers may be valid only once.
        self._password = answer if "password" in prompt.lower() else None
        return answer


def choose_algorithms(written: str, possible: Sequence[str], default: Sequence[str]) -> list[str]:
    """Parse a list of algorithms as ssh does, without those that asyncssh does not have.

    ``+`` appends to the default algorithms, ``-`` removes from them, ``^`` puts algorithms before them; ``*`` and ``?``
    are patterns.
    """
    sign = written[:1] if written[:1] in ("+", "-", "^") else ""
    patterns = written.removeprefix(sign).split(",")
    named = [name for pattern in patterns for name in possible if match_pattern(name, pattern.strip())]
    if sign == "-":
        chosen = [name for name in default if name not in named]
    elif sign == "+":
        chosen = [*default, *named]
    elif sign == "^":
        chosen = [*named, *default]
    else:
        chosen = named
    return list(dict.fromkeys(chosen)) or list(default)


def names(algorithms: Sequence[bytes]) -> list[str]:
    """Return the names of algorithms, as text."""
    return [each.decode("ascii") for each in algorithms]


def _type_of(algorithm: str) -> str:
    """Return the key type that an algorithm is for: RSA has several algorithms and one type."""
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm


def _importable(keys: Sequence[KnownKey]) -> list[asyncssh.SSHKey]:
    found = []
    for known in keys:
        with contextlib.suppress(asyncssh.KeyImportError):
            found.append(asyncssh.import_public_key(str(known.key)))
    return found


def safe_words(text: str) -> str:
    """Return untrusted text as one line of bounded length that is safe to print."""
    return re.sub(r"\s+", " ", "".join(each if each.isprintable() else " " for each in text)).strip()[
        :BANNER_CHARACTERS
    ]
