"""Grants for always, saved as rules in the user's rule file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._exceptions import AnyshellError
from ..._private import create_file, make_directories
from ..rules.loading import LARGEST_FILE
from ..rules.trust import user_rules
from .arity import ARITY
from .grants import can_be_saved, label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..._types import Grant, ReachRequest


_LONGEST_COMMAND = 200
"""Characters of a command in the comment of a saved destination or path; the comment has no more of the command."""

_LOCK = threading.Lock()  # without the lock, concurrent calls would overwrite each other's changes


def save(grants: Sequence[Grant], path: Path | None = None) -> None:
    """Write grants to the user's rule file, as one change; each rule has a comment with the date and the command. Blocking.

    Args:
        grants: Grants that `can_be_saved` accepts.
        path: The file; by default the file of `user_rules`. A missing file is created, accessible for this user only.

    Raises:
        AnyshellError: A grant cannot be saved; the file is not TOML; or the file would be too large to be loaded.
        OSError: The file cannot be read or written. The file is then unchanged.
    """
    if not all(map(can_be_saved, grants)):
        raise AnyshellError(
            "a grant with such words, paths or hosts cannot be a rule: grant it for the session"
        )
    file = Path(os.path.realpath(path or user_rules()))  # changes the target of a link, and keeps the link
    make_directories(file.parent)
    with _LOCK:
        _add(grants, file)


def save_destination(name: str, port: int, command: str, path: Path | None = None) -> None:
    """Write a network destination to the user's rule file, as `save` does: every reach with names of hosts then has it.

    Args:
        name: The name of the host.
        port: The port of the host.
        command: The command that asked for the destination.
        path: As for `save`.

    Raises:
        AnyshellError, OSError: As for `save`.
    """
    _widen([f"network = [{_text(f'{name}:{port}')}]"], command, path)


def save_places(request: ReachRequest, path: Path | None = None) -> None:
    """Write the paths that a command gets beyond its reach to the user's rule file, as `save` does; never hidden paths.

    Args:
        request: The request for the paths.
        path: As for `save`.

    Raises:
        AnyshellError, OSError: As for `save`.
    """
    if request.hidden:
        raise AnyshellError("what a reach hides is not a rule: grant it for the session")
    lines = [f"host = {_text(request.host)}"]
    for kind, paths in (("write", request.also_write), ("read", request.also_read)):
        lines += [f"{kind} = [{', '.join(map(_text, paths))}]"] * bool(paths)
    _widen(lines, request.text, path)


def _widen(lines: Sequence[str], command: str, path: Path | None) -> None:
    """Add a ``[[widened]]`` table with the given lines to the user's rule file."""
    file = Path(os.path.realpath(path or user_rules()))
    make_directories(file.parent)
    asked = json.dumps(command[:_LONGEST_COMMAND])
    heading = f"\n# {date.today().isoformat()}: granted for always, when asked about: {asked}\n"
    with _LOCK:
        _write(file, lambda before, _: "\n".join((f"{before}{heading}[[widened]]", *lines, "")))


def _add(grants: Sequence[Grant], file: Path) -> None:
    import tomllib

    def added(before: str, tables: Mapping[str, Any]) -> str:
        rules, after = tables.get("allow", []), before
        names = {rule.get("name") for rule in rules}
        for grant in grants:
            added = "\n".join(_rule(grant, names))
            if not any(_same(rule, tomllib.loads(added)["allow"][0]) for rule in rules):
                after += added
        return after

    _write(file, added)


def _write(file: Path, change: Callable[[str, Mapping[str, Any]], str]) -> None:
    import tomllib

    before = file.read_text(encoding="utf-8") if file.exists() else ""
    try:
        after = change(before, tomllib.loads(before))
        tomllib.loads(after)
    except (tomllib.TOMLDecodeError, AttributeError, TypeError) as error:
        raise AnyshellError(f"no rule was added to {file}, which has a mistake: {error}") from error
    if len(after.encode()) > LARGEST_FILE:
        raise AnyshellError(f"no rule was added to {file}: it would be too large to be loaded")
    new = f"{file}.{os.urandom(4).hex()}.new"
    try:
        with open(create_file(new), "w", encoding="utf-8", newline="\n") as written:
            written.write(after)
            written.flush()
            os.fsync(written.fileno())
        os.replace(new, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def _rule(grant: Grant, names: set[str]) -> Iterator[str]:
    command, access = grant.seen.command, grant.seen.access
    kind = "-".join(re.findall(r"[a-z0-9]+", " ".join(grant.words).lower())) or "command"
    name = next(name for count in range(1, len(names) + 2) if (name := f"{kind}-{count}") not in names)
    names.add(name)
    whole = (command.program or "", *(argument.text for argument in command.arguments))
    asked = label(replace(grant, words=whole, exact=True))
    yield f"\n# {date.today().isoformat()}: granted for always, when asked about: {asked}"
    yield "[[allow]]"
    yield f"name = {_text(name)}"
    yield f"command = {_text(' '.join(grant.words))}"
    if grant.exact:
        yield "exact = true"
    yield "plain = true"
    if grant.seen.doubts:  # a rule with limits never holds here: the grant is exact, or has no limits
        yield ""
        return
    for key in ("reads", "writes", "deletes"):
        if paths := getattr(access, key):
            yield f"{key} = [{', '.join(map(_text, paths))}]"
    if access.network:
        yield f"network = {'true' if '*' in access.network else '[' + ', '.join(map(_text, access.network)) + ']'}"
    if access.privilege or ARITY.get(grant.words[:1]) == 1:
        yield f"privilege = {'true' if access.privilege else 'false'}"  # a rule with this key allows no other effects
    yield ""


def _same(rule: dict[str, object], other: dict[str, object]) -> bool:
    return {**rule, "name": ""} == {**other, "name": ""}


def _text(text: str) -> str:
    return json.dumps(text)  # printable ASCII, which JSON and TOML quote alike
