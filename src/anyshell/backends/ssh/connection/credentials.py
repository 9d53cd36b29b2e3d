"""Credentials: keys of an agent and of files, and answers of people.

A passphrase is asked for only when the server has said that it would take the key, as with ssh. If no file shows the
public key, the server cannot be asked, and the passphrase is asked for at once.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
import stat
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import asyncssh

from ...._waits import in_a_thread, to_the_end
from .hostkeys import HostKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from .options import SSHOptions
    from .settings import Settings

AGENT_SECONDS = 5.0
"""Seconds for an agent to list its keys."""

LARGEST_KEY_FILE = 1024 * 1024
"""Bytes of a key file that are read."""

Tell = "Callable[[str], object]"


@dataclass
class Secrets:
    """Secrets that a person typed and the host accepted, so that the backend's next connection does not ask again.

    The secrets are held in memory only.
    """

    keys: dict[str, asyncssh.SSHKey] = field(default_factory=dict, repr=False)
    passwords: dict[tuple[str, str, int], str] = field(default_factory=dict, repr=False)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    """Held while a person is asked, so that one question is put at a time."""


@dataclass
class Offer:
    """A key that may be offered to a server."""

    pair: asyncssh.SSHKeyPair
    label: str


class Keys:
    """The keys that may be tried on one host, in order.

    First come the keys that the user named, whether a file or an agent holds them; then the agent's other keys, unless
    IdentitiesOnly is set; then the default keys. ssh asks the agent first even for a named key. If the agent holds many
    keys, ssh so uses up the server's patience (six tries) with wrong keys.

    Args:
        settings: The settings for the host.
        options: The options, which may have a passphrase.
        secrets: The secrets that are known already.
        ask: Awaits a person's answer while the clock of the login stands still.
    """

    def __init__(
        self,
        settings: Settings,
        options: SSHOptions,
        secrets: Secrets,
        ask: Callable[[Callable[[], Awaitable[str | None]]], Awaitable[str | None]],
    ) -> None:
        self.problems: list[str] = []
        """The reasons why keys could not be offered, one line each."""
        self._settings = settings
        self._options = options
        self._secrets = secrets
        self._ask = ask
        self._agent: asyncssh.SSHAgentClient | None = None

    async def aclose(self) -> None:
        """Close the connection to the agent."""
        if self._agent is not None:
            agent, self._agent = self._agent, None
            agent.close()
            await agent.wait_closed()

    async def offers(self) -> AsyncIterator[Offer]:
        """Yield each key when it is wanted."""
        from_agent = await self._agent_keys()
        settings = self._settings
        certificates, files = await in_a_thread(self._read_files)
        named = files if settings.keys_named else []
        held = {file.path: self._held(file, from_agent) for file in files}
        for file in named:
            async for offer in self._of_file(file, held[file.path], certificates):
                yield offer
        if not settings.identities_only:
            used = {id(pair) for file in named for pair in held[file.path]}
            for pair in from_agent:
                if id(pair) not in used:
                    yield Offer(pair, _agent_label(pair))
        for file in files:
            if file in named or (held[file.path] and not settings.identities_only):
                continue
            async for offer in self._of_file(file, held[file.path], certificates):
                yield offer

    def _read_files(self) -> tuple[list[asyncssh.SSHCertificate], list[_KeyFile]]:
        """Read the certificates and the keys in files. Blocks."""
        certificates = [_certificate(path) for path in self._settings.certificates]
        files = [_KeyFile.read(path, self) for path in self._settings.keys]
        return [each for each in certificates if each is not None], [
            each for each in files if each is not None
        ]

    async def _agent_keys(self) -> list[asyncssh.SSHKeyPair]:
        if not self._settings.agent:
            return []
        try:
            async with asyncio.timeout(AGENT_SECONDS):
                self._agent = await asyncssh.connect_agent(self._settings.agent)
                return list(await self._agent.get_keys())
        except TimeoutError:
            self.problems.append(
                f"the agent at {self._settings.agent} did not answer within {AGENT_SECONDS:g} s"
            )
        except (OSError, ValueError, asyncssh.Error) as error:
            self.problems.append(f"the agent at {self._settings.agent} cannot be asked: {_reason(error)}")
        return []

    @staticmethod
    def _held(file: _KeyFile, from_agent: list[asyncssh.SSHKeyPair]) -> list[asyncssh.SSHKeyPair]:
        """Return the agent's key pairs that belong to the key of a file, with a certificate or without."""
        if file.public is None:
            return []
        return [
            pair
            for pair in from_agent
            if file.public.public_data in (pair.key_public_data, _key_of_certificate(pair.public_data))
        ]

    async def _of_file(
        self, file: _KeyFile, held: list[asyncssh.SSHKeyPair], certificates: list[asyncssh.SSHCertificate]
    ) -> AsyncIterator[Offer]:
        """Yield the offers for the key of a file: the agent's pairs of that key, or else the file itself."""
        label = _path_label(file.path, file.public)
        beside = [file.certificate] if file.certificate is not None else []
        own = [
            each
            for each in (*certificates, *beside)
            if file.public is not None and each.key.public_data == file.public.public_data
        ]
        if held:
            async for offer in self._certified(held[0], own[:1], label):
                yield offer
            for pair in held:
                yield Offer(pair, f"{label}, by the agent")
            return
        if file.key is None and not file.encrypted:
            return  # only a public key, whose private half no agent holds
        key = file.key or self._secrets.keys.get(file.path)
        if key is None and self._options.passphrase is None:
            self.problems.append(
                f"{file.path} is encrypted, and there is no passphrase: give passphrase=, or use an agent"
            )
            return
        if key is None and file.public is None:
            # Nothing shows the public key, so the server cannot be asked whether it would take the key.
            key = await self.open(file)
            if key is None:
                return
        public = key or file.public
        assert public is not None
        for cert in (*own, None):
            suffix = " with its certificate" if cert is not None else ""
            yield Offer(_FilePair(public, cert, lambda: self.open(file)), label + suffix)

    async def _certified(
        self, pair: asyncssh.SSHKeyPair, certificates: list[asyncssh.SSHCertificate], label: str
    ) -> AsyncIterator[Offer]:
        """Yield a key of the agent together with a certificate that only a file has."""
        if self._agent is None or pair.has_cert:
            return
        for certificate in certificates:
            try:  # a pair has one certificate or none, so each certificate needs a new pair
                again = list(await self._agent.get_keys([pair.public_data]))
            except ValueError:
                return
            for other in again[:1]:
                other.set_certificate(certificate)
                yield Offer(other, f"{label} with its certificate, by the agent")

    async def open(self, file: _KeyFile) -> asyncssh.SSHKey | None:
        """Open a key file; a person is asked up to three times. Return ``None`` when the key stays encrypted."""
        if file.key is not None:
            return file.key
        passphrase = self._options.passphrase
        if passphrase is None:
            return None
        tries = 1 if isinstance(passphrase, str) else self._settings.prompts
        for _ in range(tries):
            if (known := self._secrets.keys.get(file.path)) is not None:
                return known
            if isinstance(passphrase, str):
                answer: str | None = passphrase
            else:
                answer = await self._ask(lambda: passphrase(file.path))
            if answer is None:
                break
            try:
                key = await in_a_thread(partial(asyncssh.import_private_key, file.data, answer))
            except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
                if "bcrypt" in str(error):
                    self.problems.append(
                        f"{file.path} is encrypted, and only bcrypt can open it: pip install bcrypt"
                    )
                    return None
                continue
            self._secrets.keys[file.path] = key
            return key
        self.problems.append(f"{file.path} is encrypted, and none of the given passphrases opens it")
        return None


@dataclass
class _KeyFile:
    """The content of a key file: the key, or the facts that are visible before decryption."""

    path: str
    data: bytes = field(repr=False)
    key: asyncssh.SSHKey | None
    public: asyncssh.SSHKey | None
    certificate: asyncssh.SSHCertificate | None
    encrypted: bool

    @classmethod
    def read(cls, path: str, keys: Keys) -> _KeyFile | None:
        """Read a key file; ``None`` when the file is of no use. Blocks."""
        named = keys._settings.keys_named
        data = b""
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                data = file.read(LARGEST_KEY_FILE)
        except OSError as error:
            if named:
                keys.problems.append(f"{path} cannot be read: {error.strerror}")
            # The public half may exist in another file, and the private half in an agent.
        else:
            if _open_to_others(status) and b"PRIVATE KEY" in data:
                keys.problems.append(
                    f"{path} can be read by other users, and is not used; run chmod 600 on it"
                )
                return None
        key: asyncssh.SSHKey | None = None
        encrypted = False
        if b"PRIVATE KEY" in data:
            try:
                key = asyncssh.import_private_key(data)
            except asyncssh.KeyImportError as error:
                encrypted = str(error).startswith("Passphrase")
                if not encrypted:
                    keys.problems.append(f"{path} cannot be used: {error}")
                    return None
        public = key or _public(data) or _public_file(f"{path}.pub")
        if public is None and not encrypted:
            return None
        return cls(path, data, key, public, _certificate(f"{path}-cert.pub"), encrypted)


class _FilePair(asyncssh.SSHKeyPair):
    """A key of a file, opened when data must be signed."""

    def __init__(
        self,
        public: asyncssh.SSHKey,
        certificate: asyncssh.SSHCertificate | None,
        opened: Callable[[], Awaitable[asyncssh.SSHKey | None]],
    ) -> None:
        super().__init__(
            public.algorithm,
            public.algorithm,
            public.sig_algorithms,
            public.sig_algorithms,
            public.public_data,
            None,
            certificate,
        )
        self._opened = opened

    async def sign_async(self, data: bytes) -> bytes:
        """Sign data. Raises a ValueError if the key stays encrypted: asyncssh then goes on to the next key."""
        key = await self._opened()
        if key is None:
            raise ValueError("the key stays encrypted")
        if not key.algorithm.startswith(b"sk-"):
            return key.sign(data, self.sig_algorithm)
        return await in_a_thread(
            partial(key.sign, data, self.sig_algorithm)
        )  # a person has to touch the security key


@asynccontextmanager
async def closing(keys: Keys) -> AsyncIterator[Keys]:
    """Close the connection to the agent at the end, whatever happens."""
    try:
        yield keys
    finally:
        await to_the_end(keys.aclose(), lambda: None)


def _open_to_others(status: os.stat_result) -> bool:
    """Whether ssh would call a private key unprotected: the file is this user's, and other users have access."""
    return (
        hasattr(os, "getuid") and status.st_uid == os.getuid() and bool(stat.S_IMODE(status.st_mode) & 0o077)
    )


def _public(data: bytes) -> asyncssh.SSHKey | None:
    """Return the public key in a file, if there is one.

    The file may be a public key; OpenSSH's private key files hold the public key unencrypted (PROTOCOL.key).
    """
    found = re.search(rb"-----BEGIN OPENSSH PRIVATE KEY-----(.*?)-----END", data, re.DOTALL)
    try:
        if found is None:
            return asyncssh.import_public_key(data) if data else None
        rest = base64.b64decode(found[1])[len(b"openssh-key-v1\0") :]
        for _ in range(3):  # cipher, key derivation, options of the key derivation
            rest = rest[4 + int.from_bytes(rest[:4], "big") :]
        rest = rest[4:]  # the number of keys: one
        blob = rest[4 : 4 + int.from_bytes(rest[:4], "big")]
        kind = blob[4 : 4 + int.from_bytes(blob[:4], "big")]
        return asyncssh.import_public_key(kind + b" " + base64.b64encode(blob))
    except (asyncssh.KeyImportError, binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _public_file(path: str) -> asyncssh.SSHKey | None:
    try:
        return asyncssh.read_public_key(path)
    except (OSError, asyncssh.KeyImportError, ValueError):
        return None


def _certificate(path: str) -> asyncssh.SSHCertificate | None:
    try:
        return asyncssh.read_certificate(path)
    except (OSError, asyncssh.KeyImportError, ValueError):
        return None


def _key_of_certificate(data: bytes) -> bytes | None:
    kind = data[4 : 4 + int.from_bytes(data[:4], "big")]
    if b"-cert-v01@openssh.com" not in kind:
        return None
    try:
        return asyncssh.import_certificate(kind + b" " + base64.b64encode(data)).key.public_data
    except asyncssh.KeyImportError:
        return None


def _path_label(path: str, public: asyncssh.SSHKey | None) -> str:
    if public is None:
        return path
    return f"{path} ({HostKey('', public.public_data).fingerprint})"


def _agent_label(pair: asyncssh.SSHKeyPair) -> str:
    comment = pair.get_comment(errors="replace") or "a key"
    data = _key_of_certificate(pair.public_data) or pair.key_public_data
    return f"{_printable(comment)} of the agent ({HostKey('', data).fingerprint})"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in text)[:80]


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
