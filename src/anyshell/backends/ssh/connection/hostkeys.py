"""Known host keys: looking up the keys of a host, judging a key by them, recording a new key.

The format is that of sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT". Keys are compared as bytes, so a key of a type that
asyncssh does not support can be known all the same.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...._exceptions import ConnectionFailed, HostKeyUntrusted
from .config import match_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PRINT_FINGERPRINTS = "cat /etc/ssh/ssh_host_*_key.pub | ssh-keygen -lf -"
"""The command that prints the fingerprints of all keys of a server, on the server itself: ssh-keygen(1) takes only one file."""

Verdict = Literal["trusted", "unknown", "changed", "revoked", "unreadable"]

_LINE = re.compile(r"(?:@(\S+)\s+)?(\S+)\s+(.*)", re.DOTALL)
"""Matches a marker, names or patterns, and a key."""


@dataclass(frozen=True, slots=True)
class HostKey:
    """A host's public key.

    Attributes:
        type: The key's algorithm, such as ``ssh-ed25519``.
        data: The key in SSH's own encoding.
    """

    type: str
    data: bytes

    @property
    def fingerprint(self) -> str:
        """The fingerprint: ``SHA256:`` and the digest, as ``ssh-keygen -l`` prints it."""
        digest = base64.b64encode(hashlib.sha256(self.data).digest())
        return f"SHA256:{digest.decode().rstrip('=')}"

    def __str__(self) -> str:
        """Return the key as in a line of known_hosts."""
        return f"{self.type} {base64.b64encode(self.data).decode()}"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key of a host in a file, with its line."""

    key: HostKey
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class KnownHost:
    """The entries of the files for one host.

    Attributes:
        name: The name of the host in the files, such as ``web-1`` or ``[web-1]:2222``.
        keys: The keys that the host may have.
        authorities: The keys that may sign the host's certificates.
        revoked: The keys that the host must not have.
        unreadable: The places of lines that name the host and whose key cannot be read.
        otherwise: The keys of the same host at port 22, which count when there are no other keys.
    """

    name: str
    keys: tuple[KnownKey, ...] = ()
    authorities: tuple[KnownKey, ...] = ()
    revoked: tuple[KnownKey, ...] = ()
    unreadable: tuple[str, ...] = ()
    otherwise: tuple[KnownKey, ...] = ()

    def judge(self, key: HostKey) -> Verdict:
        """Judge a key that the host shows.

        A host with a known key may show no other key, of whatever type. The negotiation of the type prefers the types
        of the known keys (see `preferred_types`), so a host that still has its known key shows that key.
        """
        if any(known.key.data == key.data for known in self.revoked):
            return "revoked"
        if any(known.key == key for known in self.keys):
            return "trusted"
        if self.keys:
            return "changed"
        if any(known.key == key for known in self.otherwise):
            return "trusted"
        return "unreadable" if self.unreadable else "unknown"

    def preferred_types(self) -> tuple[str, ...]:
        """Return the types of the known keys, each once."""
        return tuple(dict.fromkeys(known.key.type for known in self.keys or self.otherwise))


def host_name(host: str, port: int, alias: str | None = None) -> str:
    """Return the name of a host in known_hosts: in lower case, with the port if that is not 22."""
    if alias is not None:
        return alias.lower()
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def look_up(
    host: str, port: int, alias: str | None, files: Sequence[str], revoked_keys: str | None = None
) -> KnownHost:
    """Read the entries of the files for a host. Blocks. A missing file has no entries.

    A line that makes no sense is skipped. A line that names this host, but whose key cannot be read, is reported as
    unreadable, so that the host does not count as one without any key.

    Raises:
        ConnectionFailed: A file exists and cannot be read: the file may show that the host's key is another. Or
            `revoked_keys` is missing or binary.
    """
    name = host_name(host, port, alias)
    plain = None if alias is not None or name == host.lower() else host.lower()
    keys: list[KnownKey] = []
    authorities: list[KnownKey] = []
    revoked: list[KnownKey] = []
    unreadable: list[str] = []
    otherwise: list[KnownKey] = []
    for file in files:
        for number, line in _lines(file):
            found = _LINE.match(line)
            if found is None or found[1] not in (None, "cert-authority", "revoked"):
                continue
            named = _names(name, found[2])
            named_otherwise = not named and plain is not None and _names(plain, found[2])
            if not named and not named_otherwise:
                continue
            key = read_key(found[3])
            if key is None:
                if named and not re.match(r"[0-9]", found[3]):  # a number begins a key of SSH 1
                    unreadable.append(f"{file}, line {number}")
                continue
            known = KnownKey(key, file, number)
            if found[1] == "revoked":
                revoked.append(known)
            elif found[1] == "cert-authority":
                if named:
                    authorities.append(known)
            else:
                (keys if named else otherwise).append(known)
    if revoked_keys is not None:
        revoked += _revoked(revoked_keys)
    return KnownHost(
        name, tuple(keys), tuple(authorities), tuple(revoked), tuple(unreadable), tuple(otherwise)
    )


def read_key(text: str) -> HostKey | None:
    """Parse ``ssh-ed25519 AAAA… comment``; ``None`` when the text is not a key."""
    words = text.split(maxsplit=2)
    if len(words) < 2:
        return None
    try:
        data = base64.b64decode(words[1], validate=True)
        length = int.from_bytes(data[:4], "big")
        kind = data[4 : 4 + length].decode("ascii")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return HostKey(kind, data) if kind == words[0] and len(data) > 4 + length else None


def record(file: str, name: str, key: HostKey, *, hashed: bool = False) -> None:
    """Append a key to a file; create the file and its directory if needed. Blocks.

    A single write appends the line, so that the lines of two writers at the same time do not mix.

    Raises:
        OSError: The file cannot be written.
    """
    directory = os.path.dirname(file)
    if directory and not os.path.isdir(directory):
        os.makedirs(directory, mode=0o700, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        line = known_hosts_line(name, key, hashed=hashed).encode() + b"\n"
        if os.fstat(descriptor).st_size > 0:
            os.lseek(descriptor, -1, os.SEEK_END)
            if os.read(descriptor, 1) != b"\n":  # an editor left the last line without an end
                line = b"\n" + line
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def known_hosts_line(name: str, key: HostKey, *, hashed: bool = False) -> str:
    """Return the line that is appended to known_hosts in order to trust a key."""
    if hashed:
        salt = secrets.token_bytes(hashlib.sha1(usedforsecurity=False).digest_size)
        parts = (base64.b64encode(part).decode() for part in (salt, _hash(salt, name)))
        name = "|1|" + "|".join(parts)
    return f"{name} {key}"


def refusal(
    verdict: Verdict, host: str, known: KnownHost, key: HostKey, file: str, *, asked: bool = False
) -> HostKeyUntrusted:
    """Explain why a key is not trusted, and exactly how to trust the key.

    Args:
        verdict: The verdict of `KnownHost.judge`.
        host: The host, as a person knows it.
        known: The known keys of the host.
        key: The key that the host showed.
        file: The file in which a key is recorded; empty if no file is.
        asked: Whether the user was asked, and did not agree.
    """
    line = known_hosts_line(known.name, key)
    shown = f"a key of type {key.type} with the fingerprint {key.fingerprint}"
    on_the_server = f"{PRINT_FINGERPRINTS}, run on {host} itself"
    where = file or "a known_hosts file"
    if verdict == "changed":
        message = _changed(host, known, key)
    elif verdict == "revoked":
        places = ", ".join(
            f"{each.file}, line {each.line}" for each in known.revoked if each.key.data == key.data
        )
        message = f"{host} shows {shown}, which is revoked ({places}). Nothing was sent to it."
    elif verdict == "unreadable":
        message = (
            f"{host} shows {shown}, and the key that is known for it cannot be read: {', '.join(known.unreadable)}. "
            f"Repair or delete that line. To compare the fingerprint: {on_the_server}. To trust the key, append "
            f"this line to {where}: {line}"
        )
    else:
        why = "its key was not accepted" if asked else "its key is not known"
        message = (
            f"{host} is not trusted: {why}. It shows {shown}. Compare that with what this prints: {on_the_server}. "
            f"If it is the same, append this line to {where}: {line}"
        )
    return HostKeyUntrusted(
        message,
        host=known.name,
        key_type=key.type,
        fingerprint=key.fingerprint,
        line=line,
        known_hosts=file,
        changed=verdict == "changed",
    )


def _changed(host: str, known: KnownHost, key: HostKey) -> str:
    same_type = [each for each in known.keys if each.key.type == key.type]
    old = "; ".join(
        f"{each.key.type} {each.key.fingerprint} in {each.file}, line {each.line}"
        for each in same_type or known.keys
    )
    files = dict.fromkeys(each.file for each in known.keys)
    remove = " and ".join(f'ssh-keygen -f "{file}" -R "{known.name}"' for file in files)
    return (
        f"THE HOST KEY OF {host} HAS CHANGED, so nothing was sent to it. Either the server was set up anew, or "
        f"another machine stands between it and this one. It shows {key.type} {key.fingerprint}; known is {old}. Ask the "
        f"server's administrator. Only if the change is known to be right, remove the old key with {remove}, and then trust "
        f"the new one by appending this line to the same file: {known_hosts_line(known.name, key)}"
    )


def _names(name: str, patterns: str) -> bool:
    """Whether the first field of a line names a host."""
    if not patterns.startswith("|"):
        return match_list(name, patterns.lower())
    parts = patterns.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return False
    try:
        salt, digest = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except binascii.Error:
        return False
    return hmac.compare_digest(_hash(salt, name), digest)


def _hash(salt: bytes, name: str) -> bytes:
    return hmac.digest(salt, name.encode(errors="surrogateescape"), "sha1")


def _lines(file: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(_read(file).decode("utf-8", "replace").split("\n"), 1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield number, text


def _read(file: str, *, needed: bool = False) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        if not needed:
            return b""
        raise _unreadable(file, error) from error
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: OSError) -> ConnectionFailed:
    return ConnectionFailed(
        f"{file} cannot be read ({error.strerror}), so no host key can be checked against it; make it readable, or "
        "name another file with known_hosts=",
        stage="handshake",
    )


def _revoked(file: str) -> list[KnownKey]:
    """Read the keys of RevokedHostKeys, which must be readable, as with ssh."""
    if _read(file, needed=True).startswith(b"SSHKRL"):
        raise ConnectionFailed(
            f"{file}, which RevokedHostKeys names, is a binary revocation list, which cannot be read here; name a "
            "file with one public key on each line",
            stage="handshake",
        )
    keys = ((number, read_key(line)) for number, line in _lines(file))
    return [KnownKey(key, file, number) for number, key in keys if key is not None]
