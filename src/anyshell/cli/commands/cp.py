"""``anyshell cp``: files and directories between this machine and others."""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..._exceptions import InvalidCommand
from ...backends.ssh.connection.aliases import find_aliases
from ..failure import Failure
from ..host.reach import LinkLost, Target, mention_notices, parse
from ..printing import mention, printable
from ..process.descriptors import DescriptorWriter
from ..terminal.drawing import STDERR, is_wanted

if TYPE_CHECKING:
    from ... import Environment, SSHOptions
    from ..._transfer import Place
    from ...abc import Files
    from ..process.signals import Interruption

_HOST_AND_PATH = re.compile(r"((?:[^/:@]*@)*(?:\[[^\[\]/]*\]|[^/:\[\]@]+)):(.*)", re.DOTALL)


class NotAllCopied(Failure):
    """The failure that something was not copied. cp has the same exit code."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Operand:
    """A file or directory as typed, with the host of the file or directory; ``None`` is this machine."""

    text: str
    host: str | SSHOptions | None
    path: str

    @property
    def shown(self) -> str:
        """The text of the operand for a message in which a colon follows."""
        return self.text if self.host is None else self.text.removesuffix(":")


def read_operand(text: str, *, windows: bool) -> Operand:
    """Read ``path``, ``[user@]host:path`` or ``ssh://[user@]host[:port]/path``.

    Args:
        text: The typed text. A local path with a colon in its first part begins with ``./``.
        windows: Whether this machine is Windows, where ``C:`` is a drive.

    Raises:
        InvalidCommand: The address is malformed, or the text is empty.
    """
    from ...backends import SSHOptions

    if not text:
        raise InvalidCommand("a path is empty; this directory is '.'")
    if "://" in text.partition("/./")[0] and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        address = parse(text)
        if not isinstance(address, SSHOptions):
            return Operand(text, address, ".")
        return Operand(text, replace(address, directory=None), address.directory or ".")
    match = _HOST_AND_PATH.fullmatch(text)
    local = match is None or (windows and (re.match(r"[A-Za-z]:", text) or "\\" in match[1]))
    if match is None or local:
        return Operand(text, None, text)
    return Operand(text, parse(match[1]), match[2] or ".")


class _OperandType(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """A file or directory, on this machine or on another host."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Operand:
        """Parse the operand."""
        if isinstance(value, Operand):
            return value
        try:
            return read_operand(value, windows=sys.platform == "win32")
        except InvalidCommand as error:
            self.fail(str(error), param, ctx)


def _is_on_a_drive(text: str) -> bool:
    return sys.platform == "win32" and bool(re.match(r"[A-Za-z]:", text) or "\\" in text)


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tell the shell to complete a path of this machine, or return matching hosts. A path on a host is not completed."""
    if _is_on_a_drive(incomplete):
        return [CompletionItem(incomplete, type="file")]
    if ":" in incomplete and "/" not in incomplete.partition(":")[0]:
        return []
    directory, _, begun = incomplete.rpartition("/")
    try:
        here = any(
            name.startswith(begun) for name in os.listdir(directory or ("/" if "/" in incomplete else "."))
        )
    except OSError:
        here = False
    paths = [CompletionItem(incomplete, type="file")]
    if here or "/" in incomplete:
        return paths
    user, at, begun = incomplete.rpartition("@")
    hosts = [CompletionItem(f"{user}{at}{alias}:") for alias in find_aliases() if alias.startswith(begun)]
    return hosts or paths


@click.command(short_help="Copy files and directories from host to host.")
@click.option("-r", "--recursive", is_flag=True, help="Copy directories with their contents.")
@click.option(
    "-p",
    "--preserve",
    is_flag=True,
    help="Keep the modification times of files and directories, to the second.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notices. Errors are shown.")
@click.argument("source", nargs=-1, required=True, type=_OperandType(), shell_complete=_complete)
@click.argument("target", type=_OperandType(), shell_complete=_complete)
@click.pass_context
def cp(
    ctx: click.Context,
    /,
    *,
    recursive: bool,
    preserve: bool,
    quiet: bool,
    source: tuple[Operand, ...],
    target: Operand,
) -> None:
    """Copy every SOURCE to TARGET, as scp does, over any number of hosts.

    Each is a path of this machine, [user@]host:path, or ssh://[user@]host[:port]/path. A path of a host is
    relative to the directory of a login ('host:' is that directory), or below '~'. A path of this machine that has a
    colon is written with './' before it. From host to host, all goes through this machine.

    An existing directory as TARGET gets the copies into it; several sources need one. Any other TARGET is the copy,
    and replaces an existing file. A directory is merged into an existing directory.

    A file appears under its name when it is whole, and permission bits are kept; with -p, times as well. Links in a directory
    are copied as links. Sockets, pipes and devices are left out, and named. On a terminal, stderr shows the progress.

    \b
    Examples:
      anyshell cp notes.txt deploy@web-1:
      anyshell cp -rp site web-1:/srv/www
      anyshell cp web-1:/var/log/app.log web-2:/var/log/app.log.1 logs/
      anyshell cp web-1:dump.sql ssh://db@10.0.0.5:2222/~/dump.sql
      anyshell cp ./12:30.txt web-1:
    \b
    Exit code:
      0      everything was copied
      1      some sources were not copied, and stderr names them; the others were
      2      wrong usage
      125    anyshell itself failed, or a host cannot be reached
      128+n  signal n ended it; no half of a file is left under its name
      255    the connection to a host was lost
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..process import signals

    for each in (*source, target):
        _check_colon(each)

    async def perform(_: Interruption) -> int:
        async with AsyncExitStack() as stack:
            hosts = _Hosts(stack, quiet=quiet)
            places = [await hosts.place(each) for each in (*source, target)]
            copies = _Copies(source, target, recursive=recursive, preserve=preserve, quiet=quiet)
            return await copies.make(places[:-1], places[-1])

    ctx.exit(signals.run(perform))


def _check_colon(operand: Operand) -> None:
    """Refuse a path that does not exist and begins with the name of a host: the colon was forgotten."""
    if operand.host is not None or os.path.lexists(operand.text):
        return
    first, slash, rest = operand.text.partition("/")
    if first.rpartition("@")[2] in find_aliases():
        raise click.UsageError(
            f"{operand.text!r} is not there, and {first!r} is a host: write {first}:{slash}{rest} for a path of that host, "
            f"or ./{operand.text} for one of this machine"
        )


class _Hosts:
    """The hosts of one call, each connected once, and this machine."""

    def __init__(self, stack: AsyncExitStack, *, quiet: bool) -> None:
        self._stack = stack
        self._quiet = quiet
        self._reached: dict[str | SSHOptions, Environment] = {}
        self._here: Files | None = None

    async def place(self, operand: Operand) -> Place:
        from ..._files import local_place, place_of

        if operand.host is None:
            return local_place(await self._local(), operand.path)
        if operand.host not in self._reached:
            self._reached[operand.host] = await self._reach(operand.host)
        return place_of(self._reached[operand.host].files, operand.path)

    async def _reach(self, host: str | SSHOptions) -> Environment:
        from ... import Environment

        env = await self._stack.enter_async_context(Environment.detect(Target(host).options, artifacts=None))
        if not self._quiet:
            mention_notices(env.info)
        return env

    async def _local(self) -> Files:
        from ...backends import connect

        if self._here is None:
            backend = connect()
            self._stack.push_async_callback(backend.aclose)
            self._here = backend.files
        return self._here


class _Copies:
    """The copies of one call, one after the other. A failed copy is reported, and the other copies are still made."""

    def __init__(
        self,
        sources: tuple[Operand, ...],
        target: Operand,
        *,
        recursive: bool,
        preserve: bool,
        quiet: bool,
    ) -> None:
        self._preserve = preserve
        self._sources = sources
        self._target = target
        self._recursive = recursive
        self._shown: DescriptorWriter | None = DescriptorWriter(STDERR) if is_wanted(quiet=quiet) else None
        self._code = 0

    async def make(self, sources: list[Place], target: Place) -> int:
        """Make all copies, and return this program's exit code."""
        if len(sources) > 1:
            await self._require_directory(target)
        names: set[str] = set()
        for operand, source in zip(self._sources, sources, strict=True):
            name = source.rules.basename(source.bare)
            if name in names:
                self._fail(operand, "an earlier source has the same name; copy it by itself, to another name")
                continue
            try:
                await self._copy(operand, source, target)
            except OSError as error:
                if error.errno == errno.ECONNRESET:
                    raise LinkLost(printable(f"{self._failed_copy(operand)}: {_why(error)}")) from error
                self._fail(operand, _why(error))
            except InvalidCommand as error:
                self._fail(operand, str(error))
            else:
                names.add(name)
        return self._code

    async def _require_directory(self, target: Place) -> None:
        try:
            is_directory = (await target.files.stat(target.path)).kind == "directory"
        except OSError as error:
            raise NotAllCopied(
                printable(
                    f"{self._target.shown}: {_why(error)}; with several sources the target must be a directory"
                )
            ) from error
        if not is_directory:
            raise NotAllCopied(f"{self._target.shown}: with several sources the target must be a directory")

    async def _copy(self, operand: Operand, source: Place, target: Place) -> None:
        from ..._transfer import copy
        from ..terminal.progress import Progress

        if not self._recursive and (await source.files.stat(source.path)).kind == "directory":
            self._fail(operand, "it is a directory; copy it with -r")
            return
        progress = None if self._shown is None else Progress(operand.text, self._shown)
        try:
            result = await copy(source, target, progress, keep_times=self._preserve)
        finally:
            if progress is not None:
                await progress.close()
        for path in result.skipped:
            self._code = NotAllCopied.exit_code
            mention(f"{printable(path)} was not copied: it is not a file, directory or link")

    def _fail(self, operand: Operand, why: str) -> None:
        self._code = NotAllCopied.exit_code
        mention(f"{printable(f'{self._failed_copy(operand)}: {why}')}")

    def _failed_copy(self, operand: Operand) -> str:
        return f"cannot copy {operand.text} to {self._target.shown}"


def _why(error: OSError) -> str:
    """Return the system's message with the path of the error, which may be far below the named path."""
    where = f" ({error.filename})" if isinstance(error.filename, str) else ""
    return f"{error.strerror or error}{where}"
