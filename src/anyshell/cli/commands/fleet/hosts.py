"""The hosts of a fleet, as named on the command line and in files."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from ...._exceptions import AnyshellError
from ...failure import Failure
from ...printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .... import SSHOptions
    from .request import FleetRequest

LARGEST_HOSTS_FILE = 1024 * 1024
"""Bytes of a file with hosts; more is an error."""


@dataclass(frozen=True, slots=True)
class _HostEntry:
    """A host as written, and the place of the text."""

    text: str
    place: str


def complete_hosts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the last host of a list."""
    from ....backends.ssh.connection.aliases import find_aliases

    before, comma, last = incomplete.rpartition(",")
    user, at, begun = last.rpartition("@")
    known = ["local", *find_aliases()]
    return [CompletionItem(before + comma + user + at + name) for name in known if name.startswith(begun)]


def read_hosts(request: FleetRequest) -> list[str]:
    """Return every named host, in order; raise a usage error if a host is malformed, or named twice."""
    from ....backends import read_address

    if request.files.count("-") + request.reads_stdin > 1:
        raise click.UsageError("stdin is read once: give --stdin, or '--hosts-file -' once")
    hosts: list[str] = []
    seen: dict[SSHOptions | None, str] = {}
    for entry in _entries(request):
        try:
            address = read_address(entry.text)
        except AnyshellError as error:
            raise click.UsageError(f"{entry.place}: {error}") from error
        if address in seen:
            raise click.UsageError(
                f"{entry.place}: {printable(entry.text)} is listed already ({seen[address]}); remove one of the two"
            )
        seen[address] = entry.place
        hosts.append(entry.text)
    if not hosts:
        raise click.UsageError("there are no hosts: name them by --hosts or --hosts-file")
    return hosts


def _entries(request: FleetRequest) -> Iterator[_HostEntry]:
    for listed in request.lists:
        for number, text in enumerate(listed.split(","), 1):
            if not text.strip():
                raise click.UsageError(
                    f"--hosts: host {number} is empty: give names, with one comma between two"
                )
            yield _HostEntry(text.strip(), f"--hosts, host {number}")
    for path in request.files:
        name = "stdin" if path == "-" else printable(path)
        for number, line in enumerate(_read_file(path, name).splitlines(), 1):
            text = _without_comment(line)
            if text:
                yield _HostEntry(text, f"{name}, line {number}")


def _read_file(path: str, name: str) -> str:
    try:
        if path == "-":
            if sys.stdin is None:  # closed by the process that started this program
                raise Failure("cannot read the hosts in stdin: it is closed")
            data = sys.stdin.buffer.read(LARGEST_HOSTS_FILE + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LARGEST_HOSTS_FILE + 1)
    except OSError as error:
        raise Failure(f"cannot read the hosts in {name}: {error.strerror}") from error
    if len(data) > LARGEST_HOSTS_FILE:
        raise Failure(f"{name} has more than {LARGEST_HOSTS_FILE} bytes: is it a list of hosts?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise click.UsageError(f"{name}, line {line}: it is not UTF-8 text") from error


def _without_comment(line: str) -> str:
    """Return a line without its comment, which begins with a ``#`` at the start of a word."""
    return re.sub(r"(?:^|\s)#.*", "", line).strip()
