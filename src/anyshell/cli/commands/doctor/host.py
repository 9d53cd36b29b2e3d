"""``anyshell doctor --host``: a check of the connection to a host, step by step, that names the step that fails."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...._exceptions import AnyshellError, ConnectionFailed, HostKeyUntrusted
from ...host.reach import Target
from .confining import look_at_reach
from .programs import find_installer, installers, look_at_programs
from .report import Finding

if TYPE_CHECKING:
    import asyncssh

    from .... import SSHOptions
    from ....abc import HostInfo
    from ....backends.ssh.connection.settings import Settings
    from .report import Report

STEPS = ("name", "port", "key", "auth", "shell", "terminal", "sftp", "limits")
"""The steps of the check, in their order."""

_STEP_OF_STAGE = {
    "address": "name",
    "connect": "port",
    "handshake": "key",
    "authenticate": "auth",
    "session": "shell",
}

_ADVICE = {
    "name": "'ssh -G HOST' shows what ~/.ssh/config makes of the name",
    "port": "'ssh -v HOST' shows what is tried; on the host, 'ss -lnt' shows whether the server listens",
    "key": "'ssh -v HOST' shows what the server says; its own log says more",
    "auth": "'ssh -v HOST' shows which keys are offered; on the host, the log of sshd says why they are refused",
    "shell": "'ssh HOST true' has to print nothing and end with 0",
    "terminal": "put 'PermitTTY yes' into the host's sshd_config, and take no-pty and restrict from the key's line in "
    "authorized_keys; until then 'run --pty' runs without",
    "sftp": "put 'Subsystem sftp internal-sftp' into the host's sshd_config",
}
"""The advice for a step that fails, in addition to the message."""

_CHANGED = "ask the server's administrator why, compare the new fingerprint with theirs, and only if that is right, paste"


def _untrusted(error: HostKeyUntrusted, host: str) -> Finding:
    """Return a short finding about a host key that is not trusted, with the command that records the key."""
    from ....backends.ssh.connection.hostkeys import PRINT_FINGERPRINTS
    from ....shells import SHELLS

    shown = f"{host} shows {error.key_type} {error.fingerprint}"
    if not error.known_hosts:
        return Finding(
            "host", "key", "problem", f"{shown}, which is not trusted", str(error).partition(". ")[2]
        )
    words = SHELLS["sh"].join
    record = f"{words(['echo', error.line])} >> {words([error.known_hosts])}"
    if error.changed:
        forget = words(["ssh-keygen", "-f", error.known_hosts, "-R", error.host])
        return Finding(
            "host", "key", "problem", f"{shown}; known is another", _CHANGED, f"{forget} && {record}"
        )
    compare = (
        f"compare the fingerprint with '{PRINT_FINGERPRINTS}' on the host, and only if it is there, paste"
    )
    return Finding("host", "key", "problem", f"{shown}, which is not known", compare, record)


class _Failed(Exception):  # noqa: N818 - it never leaves the module
    """A step has failed, and later steps are not reached."""


async def examine_host(options: SSHOptions, report: Report) -> None:
    """Check a host step by step, and add the findings to the report. A failure is a finding, not an exception."""
    async with AsyncExitStack() as stack:
        with suppress(_Failed):
            await _Examination(options, report, stack).go()
    reached = {finding.name for finding in report.findings if finding.topic == "host"}
    before = next((step for step in reversed(STEPS) if step in reached), "")
    rest = [
        Finding("host", step, "skipped", f"not reached, since {before} failed", f"mend {before} first")
        for step in STEPS
        if step not in reached
    ]
    at = sum(finding.topic in ("host", "way") for finding in report.findings)
    report.findings[at:at] = rest


class _Examination:
    """One check of one host."""

    def __init__(self, options: SSHOptions, report: Report, stack: AsyncExitStack) -> None:
        self._way = Target(options)
        self._report = report
        self._stack = stack
        self._notices: list[str] = []

    @property
    def _options(self) -> SSHOptions:
        from ....backends import SSHOptions

        assert isinstance(self._way.options, SSHOptions)
        return self._way.options

    async def go(self) -> None:
        """Take every step of the check."""
        settings = await self._name_and_port()
        connection = await self._key_and_auth(settings)
        info = await self._shell()
        await self._stops(info)
        await self._terminal(connection)
        await self._sftp(connection)
        await self._limits(connection)
        self._programs(info)
        with suppress(AnyshellError):
            self._report.findings += await look_at_reach(self._backend, info.os, here=False)

    def _ok(self, step: str, detail: str) -> None:
        self._report.findings.append(Finding("host", step, "ok", detail))

    def _problem(self, step: str, detail: str, advice: str) -> None:
        self._report.findings.append(Finding("host", step, "problem", detail, advice))

    def _fail(self, error: AnyshellError, step: str) -> _Failed:
        """Report an error as the problem of its step, and earlier steps without a finding as ok; return what to raise."""
        if isinstance(error, HostKeyUntrusted):
            step = "key"
        elif isinstance(error, ConnectionFailed):
            step = _STEP_OF_STAGE[error.stage]
        done = {finding.name for finding in self._report.findings}
        for other in STEPS[: STEPS.index(step)]:
            if other not in done:
                self._ok(other, "nothing wrong was found")
        self._report.findings = [
            finding for finding in self._report.findings if (finding.topic, finding.name) != ("host", step)
        ]  # a first host of the route passed the step, and a later host fails at the same step
        if isinstance(error, HostKeyUntrusted):
            self._report.findings.append(_untrusted(error, self._options.host))
        else:
            self._problem(step, str(error).partition("\n")[0], _ADVICE[step])
        return _Failed()

    # --- the steps ---

    async def _name_and_port(self) -> Settings:
        from ....backends.ssh.connection.connecting import find_addresses, find_route, open_socket

        step = "name"
        try:
            route = await find_route(self._options)
            first, last = route[0], route[-1]
            behind = (
                ""
                if first is last
                else f"; the first host on the way, through {len(route) - 1}, is looked at"
            )
            if first.proxy_command is not None:
                self._ok("name", "not looked up here: ProxyCommand finds the host")
                self._ok("port", "not tried by itself: ProxyCommand connects")
                return last
            addresses = []
            try:
                async with asyncio.timeout(first.connect_timeout):
                    addresses = await find_addresses(first)
                    shown = ", ".join(dict.fromkeys(str(address[0]) for _, address in addresses))
                    self._ok("name", f"{first.host} is {shown}" + behind)
                    step = "port"
                    (await open_socket(first, addresses)).close()
            except TimeoutError:
                raise ConnectionFailed(
                    f"{first.address}: no answer within {first.connect_timeout:g} s",
                    stage="connect" if addresses else "address",
                ) from None
            self._ok("port", f"a server answers at {first.address}")
        except AnyshellError as error:
            raise self._fail(error, step) from None
        return last

    async def _key_and_auth(self, settings: Settings) -> asyncssh.SSHClientConnection:
        from ....backends.ssh.connection.connecting import open_connection
        from ....backends.ssh.connection.credentials import Secrets

        self._secrets = Secrets()
        try:
            connection = await open_connection(
                self._options, tell=self._notices.append, secrets=self._secrets
            )
        except AnyshellError as error:
            raise self._fail(error, "auth") from None
        finally:
            for notice in dict.fromkeys(self._notices):
                self._report.findings.append(Finding("way", "notice", "ok", notice))
        self._stack.callback(connection.abort)
        self._way.settle()
        key = connection.get_server_host_key()
        shown = "" if key is None else f"{key.get_algorithm()} {key.get_fingerprint()}, "
        self._ok("key", f"{shown}known for {settings.address}")
        self._ok("auth", f"{settings.user} is let in")
        return connection

    async def _shell(self) -> HostInfo:
        """Query the facts of the host: only once, since each query takes a session, and the host may allow few sessions."""
        from ...._environment.descriptions import programs
        from ....backends import connect
        from ....shells import SHELLS, Login, not_found, query

        backend = self._backend = connect(self._options, launcher=Login)
        self._stack.push_async_callback(backend.aclose)
        try:
            info = await backend.info(query((*SHELLS, *programs(), *installers())))
            if info.shell is None:
                raise not_found(None, info.shells_tried, os=info.os)
        except AnyshellError as error:
            raise self._fail(error, "shell") from None
        self._report.usable = True
        self._ok(
            "shell",
            f"commands run in {info.shell.name} ({info.shell.path}) as {info.user} on {info.hostname}",
        )
        return info

    async def _stops(self, info: HostInfo) -> None:
        """Check whether a stopped command on the host is seen to end. A success adds no finding."""
        from ...._types import Spawn
        from ....backends.ssh.connection.pool import SETTLE_SECONDS
        from ....backends.ssh.sessions import OPEN_SECONDS

        if info.shell is None or info.os == "windows":
            return
        with suppress(AnyshellError, TimeoutError):
            async with asyncio.timeout(OPEN_SECONDS):
                process = await self._backend.spawn(Spawn(argv=(info.shell.path, "-c", "sleep 60"), cwd="/"))
                await process.send_signal("kill")
                alive = await process.survivors()
                await process.aclose()
            if alive:
                self._report.findings.append(
                    Finding(
                        "host",
                        "stops",
                        "problem",
                        "a command that is stopped is not seen to end: it is said to be lost, and what it started may go on",
                        "commands are looked for by /proc (or ps) and awk, in one pid namespace: see that the host has "
                        "them, that its name leads to one machine, and that sessions share their namespace",
                    )
                )
        await asyncio.sleep(5 * SETTLE_SECONDS)  # the host may allow only one session

    async def _terminal(self, connection: asyncssh.SSHClientConnection) -> None:
        import asyncssh

        from ....backends.ssh.connection.pool import SETTLE_SECONDS
        from ....backends.ssh.sessions import OPEN_SECONDS

        try:
            async with asyncio.timeout(OPEN_SECONDS):
                process = await _open_session(connection, "exit", terminal=True)
        except (TimeoutError, asyncssh.Error, OSError):
            detail = "not granted: programs that want one cannot be used"
            self._report.findings.append(Finding("host", "terminal", "missing", detail, _ADVICE["terminal"]))
        else:
            # A startup file may be slow, and until its end the session counts as open.
            with suppress(TimeoutError):
                async with asyncio.timeout(OPEN_SECONDS):
                    await process.wait_closed()
            process.close()
            self._ok("terminal", "granted to commands that ask for one")
        await asyncio.sleep(5 * SETTLE_SECONDS)  # the host may allow only one session

    async def _sftp(self, connection: asyncssh.SSHClientConnection) -> None:
        import asyncssh

        from ....backends.ssh.sessions import OPEN_SECONDS

        try:
            async with asyncio.timeout(OPEN_SECONDS):
                client = await connection.start_sftp_client(env=None, send_env=None)
            client.exit()
            await client.wait_closed()
        except (TimeoutError, asyncssh.Error, OSError):
            detail = "not offered, or it does not answer: files go through the shell, which is slower"
            self._report.findings.append(Finding("host", "sftp", "missing", detail, _ADVICE["sftp"]))
        else:
            self._ok("sftp", f"files are copied by version {client.version} of it")

    async def _limits(self, connection: asyncssh.SSHClientConnection) -> None:
        from ....backends.ssh.connection.pool import HANDSHAKES, SESSIONS, SETTLE_SECONDS

        await asyncio.sleep(5 * SETTLE_SECONDS)  # the session of SFTP was closed just now
        sessions, why = await _count_sessions(connection, SESSIONS)
        logins = await self._count_logins(HANDSHAKES)
        most = self._options.max_connections
        room = max(0, most * sessions - most)  # each connection keeps one session for stopping
        logged = f"{logins} of {HANDSHAKES} logins at once"
        if logins is None:
            logged = "logins at once not tried, since each asks anew"
        if sessions < 2:
            self._problem(
                "limits",
                f"a connection takes {sessions} session{'' if sessions == 1 else 's'} at once{why}, {logged}",
                "raise MaxSessions in the host's sshd_config to 10, its default",
            )
        elif logins is not None and logins < HANDSHAKES:
            self._problem(
                "limits",
                f"{sessions} sessions on a connection, but only {logged}",
                "raise MaxStartups in the host's sshd_config (10:30:100 is the default), or look for another limit "
                "on connections, such as a firewall's",
            )
        else:
            more = "or more " if sessions == SESSIONS else ""
            self._ok(
                "limits",
                f"{sessions} {more}sessions on a connection (MaxSessions), {logged} (MaxStartups); about {room} "
                "commands at a time",
            )

    async def _count_logins(self, count: int) -> int | None:
        """Return how many logins the host allows at once, the existing connection included; ``None`` if that is not known.

        The check asks no question, and tries no wrong key or password.
        """
        if self._way.asks_each_time:
            return None
        from ....backends.ssh.connection.connecting import open_connection

        async def nothing(_: str) -> None:
            return None

        options = replace(
            self._options,
            trust=None,
            answer=None,
            password=None if self._options.password is None else nothing,
            passphrase=None if self._options.passphrase is None else nothing,
        )

        async def try_one() -> Any:
            return await open_connection(options, tell=lambda _: None, secrets=self._secrets)

        attempts = [asyncio.ensure_future(try_one()) for _ in range(count - 1)]
        try:
            results = await asyncio.gather(*attempts, return_exceptions=True)
        finally:
            for attempt in attempts:
                attempt.cancel()
            await asyncio.wait(attempts)
            opened = [each.result() for each in attempts if not each.cancelled() and each.exception() is None]
            for connection in opened:
                connection.abort()
        if any(isinstance(each, ConnectionFailed) and each.stage == "authenticate" for each in results):
            return None
        return 1 + len(opened)

    def _programs(self, info: HostInfo) -> None:
        from ...._environment.descriptions import programs
        from ....shells import how_to_install, kinds

        install = find_installer(info.programs, info.os)
        for kind, expected in kinds(info.os).items():
            if kind in info.programs:
                self._report.findings.append(Finding("shell", kind, "ok", info.programs[kind]))
            elif expected:
                advice = how_to_install(kind, info.os, install)
                self._report.findings.append(Finding("shell", kind, "missing", "not on PATH", advice))
        self._report.findings += look_at_programs(programs(), info.programs, install)


async def _count_sessions(connection: asyncssh.SSHClientConnection, most: int) -> tuple[int, str]:
    """Open up to `most` sessions on one connection; return the number of open sessions, and the reason of a refusal."""
    import asyncssh

    from ....backends.ssh.sessions import OPEN_SECONDS

    opened: list[Any] = []
    why = ""
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            while len(opened) < most:
                opened.append(await _open_session(connection))
    except asyncssh.ChannelOpenError as error:
        why = f" ({error.reason})" if error.reason else ""
    except (TimeoutError, asyncssh.Error, OSError):
        why = " (the next one did not open)"
    finally:
        for process in opened:
            process.close()
    return len(opened), why


async def _open_session(
    connection: asyncssh.SSHClientConnection, command: str = "exec cat", *, terminal: bool = False
) -> asyncssh.SSHClientProcess[bytes]:
    """Open a session that goes on until it is closed: the default command waits for input."""
    return await connection.create_process(
        command,
        env=None,
        send_env=None,
        request_pty="force" if terminal else False,
        term_type="dumb" if terminal else None,
        encoding=None,
    )
