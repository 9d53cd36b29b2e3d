"""From options to a connection that is logged in: the route, the handshake, the host key, the login.

asyncssh is given a connected socket and explicit values for everything. So asyncssh reads no configuration, resolves
no name, and decides about no host key by itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncssh
from asyncssh.encryption import get_default_encryption_algs, get_encryption_algs
from asyncssh.kex import get_default_kex_algs, get_kex_algs
from asyncssh.mac import get_default_mac_algs, get_mac_algs
from asyncssh.public_key import get_default_public_key_algs, get_public_key_algs

from ...._exceptions import AnyshellError, ConnectionFailed, InvalidCommand
from ...._waits import NoThread, in_a_thread, threads_as_os_errors, to_the_end
from .aliases import meant
from .credentials import Keys, Secrets, closing
from .hostkeys import HostKey, KnownHost, KnownKey, Verdict, look_up, record, refusal
from .login import LoginClient, choose_algorithms, names, safe_words
from .options import describe_address
from .proxy import GRACE_SECONDS, ProxyCommand
from .settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...._exceptions import ConnectionStage
    from .options import Hop, SSHOptions
    from .settings import Settings

MAX_HOPS = 10
"""Hosts on one route, the last included; more is an error."""

NEXT_ADDRESS_SECONDS = 0.25
"""Seconds after which the next address of a host is tried in parallel with a silent address (RFC 8305)."""


async def open_connection(
    options: SSHOptions,
    *,
    tell: Callable[[str], object],
    secrets: Secrets | None = None,
    on_lost: Callable[[], object] | None = None,
) -> asyncssh.SSHClientConnection:
    """Connect to a host and log in.

    The host's key is checked, whatever the configuration says; so are the keys of the hosts on the route. Nothing of
    this machine's environment is sent, now or with a session: the connection's options have no variables, no terminal
    and no forwarding, whatever the configuration says.

    The connect timeout bounds finding the address and connecting; the login timeout bounds handshake and login. Both
    count for each host on the route. While a function of the options is awaited, the clock stands still. A server has a
    clock of its own (120 seconds with OpenSSH) and may hang up.

    A cancellation, like a failure, leaves no socket, no task, no process and no connection to an agent. Closing the
    connection closes the connections of its route as well, and ends a ProxyCommand; ``wait_closed()`` waits for that.

    Args:
        options: The host, and the route to it.
        tell: Called with each notice, one sentence: settings that have no effect, and keys that were recorded.
        secrets: The secrets of another connection with the same options, which are not asked for again.
        on_lost: Called when the connection is gone, whichever side closed it; perhaps before this function returns.

    Raises:
        InvalidCommand: The configuration cannot be used; the message names the file and line.
        ConnectionFailed: The connection failed at the step that ``stage`` names.
        HostKeyUntrusted: A host key is unknown, or differs from the known key.
    """
    secrets = secrets or Secrets()
    connection: asyncssh.SSHClientConnection | None = None
    told: set[str] = set()
    try:
        route = await _find_way(options)
        for settings, known in route:
            for notice in settings.notices:
                if notice not in told:
                    told.add(notice)
                    tell(notice)
            last = settings is route[-1][0]
            way = _Connector(settings, options, connection, tell, secrets, last=last)
            connection = await way.open(known, on_lost if last else None)
    except BaseException as error:
        if connection is not None:
            await _closed(connection)
        if isinstance(error, NoThread):
            raise _without_thread(describe_address(options), error, "address") from error
        raise
    assert connection is not None
    return connection


async def find_route(options: SSHOptions) -> list[Settings]:
    """Find the hosts through which a host is reached, the host itself last, with the settings of each.

    Raises:
        InvalidCommand: The configuration cannot be used, or there are more than `MAX_HOPS` hosts on the route.
    """
    return [settings for settings, _ in await _find_way(options)]


async def _find_way(options: SSHOptions) -> list[tuple[Settings, KnownHost]]:
    """Find the route, with the settings and the known keys of each host; one thread reads both."""
    route = [await in_a_thread(partial(_read, options))]
    while route[0][0].jumps:
        # The first jump host may be behind others, which its own part of the configuration names. Each of the
        # rest is reached from the jump host before it.
        jumps = [await in_a_thread(partial(_read, options, hop)) for hop in route[0][0].jumps]
        route[:0] = jumps
        if len(route) > MAX_HOPS:
            names = ", ".join(each.alias for each, _ in route[-4:])
            raise InvalidCommand(f"there are more than {MAX_HOPS} hosts on the way: …, {names}")
    return route


async def find_addresses(settings: Settings) -> list[tuple[int, tuple[Any, ...]]]:
    """Look up a host: its address families and addresses, in the system's order. The caller bounds the time.

    Raises:
        ConnectionFailed: The host has no address; the stage is ``address``.
        NoThread: No thread can be started for the look-up.
    """
    find = partial(
        socket.getaddrinfo, settings.host, settings.port, family=settings.family, type=socket.SOCK_STREAM
    )
    try:
        # A look-up cannot be stopped, and can take half a minute. Several look-ups must not block each other.
        found = find() if _is_literal(settings.host) else await in_a_thread(find)
    except NoThread:
        raise
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a name of a host"
        near = await in_a_thread(partial(meant, settings.alias)) if settings.alias == settings.host else None
        advice = (
            "check the name, and HostName in ~/.ssh/config" if near is None else f"did you mean {near!r}?"
        )
        raise ConnectionFailed(
            f"{settings.host!r} has no address ({why}); {advice}",
            stage="address",
        ) from error
    return [(family, address) for family, _, _, _, address in found]


def _is_literal(host: str) -> bool:
    """Whether a host is given by its address, so that no look-up is needed."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def open_socket(settings: Settings, addresses: Sequence[tuple[int, tuple[Any, ...]]]) -> socket.socket:
    """Connect to the first address that answers, trying the next when one is slow. The caller bounds the time.

    Raises:
        ConnectionFailed: No address answers; the stage is ``connect``.
    """
    attempts: set[asyncio.Task[socket.socket]] = set()
    rest = list(addresses)
    failures: list[OSError] = []
    winner: socket.socket | None = None
    try:
        while winner is None and (rest or attempts):
            if rest:
                attempts.add(asyncio.ensure_future(_connected(settings, *rest.pop(0))))
            done, attempts = await asyncio.wait(
                attempts, timeout=NEXT_ADDRESS_SECONDS if rest else None, return_when=asyncio.FIRST_COMPLETED
            )
            for each in done:
                error = each.exception()
                if isinstance(error, OSError):
                    failures.append(error)
                elif error is not None:
                    raise error
                elif winner is None:
                    winner = each.result()
                else:
                    each.result().close()
    finally:
        for each in attempts:
            each.cancel()
            each.add_done_callback(_close_late)
    if winner is not None:
        return winner
    reasons = ", ".join(dict.fromkeys(_why(error) for error in failures))
    raise ConnectionFailed(
        f"no answer at {settings.address}: {reasons}; check the host and the port, and that its SSH server runs",
        stage="connect",
    ) from (failures[0] if failures else None)


async def _connected(settings: Settings, family: int, address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if settings.bind_address is not None:
            sock.bind((settings.bind_address, 0))
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _close_late(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


_RECORDING = threading.Lock()
"""Held from the last look at known_hosts to the writing of a new line: several connections may be opened at a time."""


def _read(options: SSHOptions, hop: Hop | None = None) -> tuple[Settings, KnownHost]:
    settings = read_settings(options, hop)
    return settings, _look_up(settings)


def _look_up(settings: Settings) -> KnownHost:
    return look_up(
        settings.host,
        settings.port,
        settings.host_key_alias,
        (*settings.known_hosts, *settings.system_known_hosts),
        settings.revoked_keys,
    )


@dataclass
class _Connector:
    """The step of a route from one host to the next, or from this machine to the first host."""

    settings: Settings
    options: SSHOptions
    through: asyncssh.SSHClientConnection | None
    tell: Callable[[str], object]
    secrets: Secrets
    last: bool
    """Whether the step leads to the host itself, the only one that is given a password that is a string."""

    async def open(
        self, known: KnownHost, on_lost: Callable[[], object] | None = None
    ) -> asyncssh.SSHClientConnection:
        """Connect and log in; again after a person has trusted the key, or without certificates if one was useless.

        Each attempt judges the key that the server shows in that attempt, so another key than the trusted one is
        refused.
        """
        certificates = bool(known.authorities)
        while True:
            login = LoginClient(
                self.settings, self.options, known, self.secrets, certificates=certificates, last=self.last
            )
            try:
                connection = await self._attempt(login)
            except asyncssh.HostKeyNotVerifiable as error:
                if login.shown is None and certificates:
                    certificates = False  # then the plain key decides, as with ssh
                    continue
                known = await self._trusted_by_a_person(login, known, error)
                continue
            except Exception:
                await self._record(login)  # as ssh does, whether the login worked or not
                raise
            try:
                await self._record(login)
            except BaseException:
                await _closed(connection)
                raise
            if on_lost is not None:
                login.on_lost = on_lost
                if login.lost:
                    on_lost()
            return connection

    async def _look_up_keys(self) -> KnownHost:
        return await in_a_thread(partial(_look_up, self.settings))

    # --- the host's key ---

    @property
    def _file(self) -> str:
        """The file in which a new key is recorded."""
        return next(iter(self.settings.known_hosts), "")

    async def _trusted_by_a_person(
        self, login: LoginClient, known: KnownHost, error: asyncssh.HostKeyNotVerifiable
    ) -> KnownHost:
        """Ask whether an unknown key is trusted, and record a trusted key. Return the keys known afterwards."""
        shown = login.shown
        if shown is None:
            # asyncssh looks for revoked keys itself, before it asks this module.
            raise ConnectionFailed(
                f"{self.settings.address} shows a host key that cannot be accepted: {error}",
                stage="handshake",
            ) from error
        settings, trust = self.settings, self.options.trust
        verdict = known.judge(shown)
        asked = False
        if verdict in ("unknown", "unreadable") and settings.host_key_policy == "ask" and trust is not None:
            async with self.secrets.asking:
                latest = (
                    await self._look_up_keys()
                )  # the same question may have been answered for another connection meanwhile
                if latest.judge(shown) not in ("unknown", "unreadable"):
                    return latest
                asked = True
                if await trust(_question(settings, shown, known)) is True:
                    await self._append(shown, over_unreadable=True)
                    return _with(known, shown, self._file)
        raise refusal(verdict, settings.address, known, shown, self._file, asked=asked) from error

    async def _record(self, login: LoginClient) -> None:
        """Record a key that was accepted because it is new, unless another key was recorded meanwhile."""
        accepted = login.accepted
        if accepted is None:
            return
        await self._append(accepted)

    async def _append(self, key: HostKey, *, over_unreadable: bool = False) -> None:
        address = self.settings.address
        if not self._file:
            self.tell(f"The host key of {address} ({key.fingerprint}) is trusted, and recorded nowhere.")
            return
        try:
            known, verdict = await in_a_thread(partial(self._append_now, key, over_unreadable))
        except OSError as error:
            self.tell(
                f"The host key of {address} ({key.fingerprint}) is trusted, but could not be recorded in "
                f"{self._file}: {error.strerror}."
            )
            return
        if verdict == "unknown" or (over_unreadable and verdict == "unreadable"):
            self.tell(
                f"The host key of {address} ({key.type} {key.fingerprint}) was recorded in {self._file}."
            )
        elif verdict != "trusted":
            raise refusal(verdict, address, known, key, self._file)

    def _append_now(self, key: HostKey, over_unreadable: bool) -> tuple[KnownHost, Verdict]:
        """Record a key unless a key was recorded meanwhile. Return the keys known just before, and the verdict."""
        with _RECORDING:
            known = _look_up(self.settings)
            verdict = known.judge(key)
            if verdict == "unknown" or (over_unreadable and verdict == "unreadable"):
                record(self._file, known.name, key, hashed=self.settings.hash_known_hosts)
        return known, verdict

    # --- the connection ---

    async def _attempt(self, login: LoginClient) -> asyncssh.SSHClientConnection:
        settings = self.settings
        clock = asyncio.timeout(settings.connect_timeout)
        sock: socket.socket | None = None
        proxy: ProxyCommand | None = None
        stage: ConnectionStage = "address"
        keys = Keys(settings, self.options, self.secrets, login.ask)
        try:
            async with closing(keys), clock:
                login.begin(clock, keys)
                if settings.proxy_command is not None and self.through is None:
                    stage = "connect"
                    sock, proxy = await ProxyCommand.start(settings.proxy_command)
                elif self.through is None:
                    addresses = await find_addresses(settings)
                    stage = "connect"
                    sock = await open_socket(settings, addresses)
                else:
                    stage = "connect"
                with threads_as_os_errors():  # asyncssh starts a thread itself
                    connection = await asyncssh.connect(**self._arguments(login, sock))
        except BaseException as error:
            if login.connection is not None:
                await _closed(login.connection)
            if sock is not None:
                sock.close()
            if proxy is not None:
                # The proxy's last words tell why the connection failed, so the proxy gets a moment to end by
                # itself.
                if isinstance(error, asyncssh.Error | ConnectionError) and login.shown is None:
                    await proxy.wait_ended(GRACE_SECONDS)
                end = proxy.end
                proxy.close()
                await to_the_end(proxy.wait_closed(), lambda: None)
            else:
                end = ""
            if not isinstance(error, Exception) or isinstance(error, AnyshellError):
                raise  # a cancellation, or an error of anyshell
            if isinstance(error, asyncssh.HostKeyNotVerifiable):
                raise
            if login.failure is not None:
                raise login.failure from None  # a function of the caller raised the error
            raise self._failure(error, login, keys, stage, end) from error
        connection.set_tunnel(proxy or self.through)
        return connection

    def _arguments(self, login: LoginClient, sock: socket.socket | None) -> dict[str, Any]:
        settings = self.settings
        chosen = settings.algorithms
        given: dict[str, Any] = {
            "kex_algs": ("kexalgorithms", get_kex_algs(), get_default_kex_algs()),
            "encryption_algs": ("ciphers", get_encryption_algs(), get_default_encryption_algs()),
            "mac_algs": ("macs", get_mac_algs(), get_default_mac_algs()),
            "signature_algs": (
                "pubkeyacceptedalgorithms",
                get_public_key_algs(),
                get_default_public_key_algs(),
            ),
        }
        lists = {
            argument: choose_algorithms(chosen[keyword], names(possible), names(default))
            for argument, (keyword, possible, default) in given.items()
            if keyword in chosen
        }
        if "encryption_algs" not in lists:
            # One call into the cipher for each packet instead of several: a third more throughput in Python.
            default = names(get_default_encryption_algs())
            lists["encryption_algs"] = sorted(default, key=lambda name: "-gcm" not in name)
        return lists | {
            "host": settings.host,
            "port": settings.port,
            "sock": sock,
            "tunnel": self.through if sock is None else None,
            "config": None,
            "username": settings.user,
            "client_factory": lambda: login,
            "known_hosts": login.known_hosts,
            "host_key_alias": settings.host_key_alias,
            "server_host_key_algs": login.host_key_algorithms(),
            "x509_trusted_certs": None,
            "x509_trusted_cert_paths": [],
            # Keys come from `LoginClient.public_key_auth_requested`; with None, asyncssh looks for no keys
            # and asks no agent.
            "client_keys": None,
            "preferred_auth": list(settings.methods) or ["none"],
            "public_key_auth": "publickey" in settings.methods,
            "kbdint_auth": "keyboard-interactive" in settings.methods,
            "password_auth": "password" in settings.methods,
            "host_based_auth": False,
            "client_host_keysign": False,
            "gss_host": None,
            "gss_kex": False,
            "gss_auth": False,
            "pkcs11_provider": None,
            "agent_forwarding": False,
            "x11_forwarding": False,
            "command": None,
            "env": None,
            "send_env": None,
            "request_pty": False,
            "encoding": None,
            "compression_algs": None,
            "canonicalize_hostname": False,
            "proxy_command": None,
            "local_addr": None,
            "tcp_keepalive": settings.tcp_keepalive,
            "keepalive_interval": settings.keepalive_interval,
            "keepalive_count_max": settings.keepalive_count,
            # Both clocks are in this module, since they stand still while a person is asked.
            "connect_timeout": None,
            "login_timeout": 0,
        }

    # --- what failed ---

    def _failure(
        self, error: Exception, login: LoginClient, keys: Keys, stage: ConnectionStage, proxy_end: str
    ) -> ConnectionFailed:
        settings = self.settings
        address = settings.address
        if login.connection is not None:
            stage = "handshake" if not login.authenticating else "authenticate"
        if isinstance(error, NoThread):
            return _without_thread(address, error, stage)
        if stage == "authenticate":
            return ConnectionFailed(self._not_let_in(error, login, keys), stage=stage)
        if isinstance(error, TimeoutError):
            if stage == "address":
                message = f"{settings.host!r} was not resolved within {settings.connect_timeout:g} s; check the name"
            elif stage == "connect":
                message = (
                    f"{address} did not answer within {settings.connect_timeout:g} s; check the host, the port and "
                    "the network, or give more time with connect_timeout="
                )
            else:
                message = (
                    f"{address} took the connection, but did not finish the SSH handshake within "
                    f"{self.options.login_timeout:g} s; check that an SSH server listens there"
                )
            return ConnectionFailed(message, stage=stage)
        if isinstance(error, asyncssh.ChannelOpenError):
            way = "the host before it" if self.through is None else str(self.through.get_extra_info("host"))
            return ConnectionFailed(
                f"{way} could not connect to {address}: {safe_words(error.reason)}; check that it can reach the host, and "
                "that it allows forwarding",
                stage="connect",
            )
        if login.connection is None and isinstance(error, ValueError):
            # asyncssh checks its arguments before it does anything.
            return ConnectionFailed(
                f"an option for {address} cannot be used: {safe_words(str(error))}",
                stage="handshake",
            )
        if proxy_end:
            return ConnectionFailed(f"{address} was not reached: {proxy_end}", stage="connect")
        if isinstance(error, asyncssh.KeyExchangeFailed):
            message = (
                f"{address} and this machine have no algorithm in common: {safe_words(str(error))}; see KexAlgorithms, "
                "Ciphers, MACs and HostKeyAlgorithms in ~/.ssh/config"
            )
        elif isinstance(error, asyncssh.ConnectionLost | ConnectionError):
            message = (
                f"{address} hung up during the SSH handshake; it may have too many connections, no algorithm in common "
                "with this machine, or a rule against this address. Its log says which"
            )
        else:
            message = f"what answers at {address} does not speak SSH, or not as it should: {safe_words(str(error))}; check the port"
        return ConnectionFailed(message, stage=stage)

    def _not_let_in(self, error: Exception, login: LoginClient, keys: Keys) -> str:
        settings = self.settings
        what = f"the login of {settings.user} at {settings.address} failed"
        parts = []
        if isinstance(error, TimeoutError):
            parts.append(f"the login took longer than {self.options.login_timeout:g} s")
        elif isinstance(error, asyncssh.PermissionDenied):
            pass  # the error says no more than that
        elif isinstance(error, asyncssh.ConnectionLost | ConnectionError):
            parts.append("the server hung up" + (" while an answer was awaited" if login.asking else ""))
        elif isinstance(error, asyncssh.DisconnectError):
            parts.append(f"the server hung up: {safe_words(error.reason)}")
        else:
            parts.append(safe_words(str(error)))
        methods = ", ".join(login.methods)
        parts.append(f"it takes {methods}" if methods else f"it takes none of {', '.join(settings.methods)}")
        parts.append(
            "tried: "
            + (
                ", ".join(login.tried)
                if login.tried
                else "nothing, since there was no key or password to try"
            )
        )
        parts += keys.problems
        if login.expired:
            parts.append("the password has expired and must be changed on the host")
        if login.banner:
            parts.append(f"it said: {safe_words(login.banner)}")
        check = "the user and the password"
        if "publickey" in login.methods or not login.methods:
            check = f"the user, and that one of these keys is in the authorized_keys of {settings.user}"
        return f"{what}: {'; '.join(parts)}. Check {check}."


def _without_thread(address: str, error: NoThread, stage: ConnectionStage) -> ConnectionFailed:
    return ConnectionFailed(
        f"{address} was not reached: {error.strerror}; end some processes of this user, or raise the limit",
        stage=stage,
    )


def _with(known: KnownHost, key: HostKey, file: str) -> KnownHost:
    """Add a key to the known keys of a host."""
    return replace(known, keys=(*known.keys, KnownKey(key, file, 0)))


def _question(settings: Settings, key: HostKey, known: KnownHost) -> str:
    unreadable = ""
    if known.unreadable:
        unreadable = f"A key is known for it that cannot be read ({', '.join(known.unreadable)}).\n"
    kind = key.type.removeprefix("ssh-").upper()
    return (
        f"The authenticity of host {settings.address} cannot be established.\n{unreadable}"
        f"{kind} key fingerprint is {key.fingerprint}.\n"
        "Are you sure that you want to continue connecting?"
    )


def _why(error: OSError) -> str:
    """The system's words for a failure, since asyncio writes the address into its own text."""
    return os.strerror(error.errno) if error.errno else str(error)


async def _closed(connection: asyncssh.SSHClientConnection) -> None:
    """Close a connection and every connection of its route, even if cancelled meanwhile."""
    connection.abort()
    await to_the_end(connection.wait_closed(), lambda: None)
