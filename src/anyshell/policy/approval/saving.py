"""Grants for always: rules in the user's file."""

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
"""Characters of a command that a comment beside a destination has."""

_LOCK = threading.Lock()  # calls at the same time would each write what it has read, and its own


def save(grants: Sequence[Grant], path: Path | None = None) -> None:
    """Write grants to the user's rules, as one change of the file; each with the date and what was asked about.

    Args:
        grants: Each as `can_be_saved` says.
        path: The file; that of `user_rules` by default. Missing, it is made for this user alone. Blocking.

    Raises:
        AnyshellError: A grant cannot be saved; the file is not TOML, or too large to be loaded with it.
        OSError: It cannot be read or written; it is then as it was.
    """
    if not all(map(can_be_saved, grants)):
        raise AnyshellError(
            "a grant with such words, paths or hosts cannot be a rule: grant it for the session"
        )
    file = Path(os.path.realpath(path or user_rules()))  # a link stays one
    make_directories(file.parent)
    with _LOCK:
        _add(grants, file)


def save_destination(name: str, port: int, command: str, path: Path | None = None) -> None:
    """Write a destination on the network to the user's rules, as `save` does: every reach with names has it from then on.

    Args:
        name: The name of the host.
        port: The port there.
        command: The command that asked for it.
        path: As for `save`.

    Raises:
        AnyshellError, OSError: As for `save`.
    """
    _widen([f"network = [{_text(f'{name}:{port}')}]"], command, path)


def save_places(request: ReachRequest, path: Path | None = None) -> None:
    """Write the paths that a command has beyond its reach to the user's rules, as `save` does; none that the reach hides.

    Args:
        request: Asks for them.
        path: As for `save`.

    Raises:
        AnyshellError, OSError: As for `save`.
    """
    if request.hidden:
        raise AnyshellError("what a reach hides is no rule: grant it for the session")
    lines = [f"host = {_text(request.host)}"]
    for kind, paths in (("write", request.also_write), ("read", request.also_read)):
        lines += [f"{kind} = [{', '.join(map(_text, paths))}]"] * bool(paths)
    _widen(lines, request.text, path)


def _widen(lines: Sequence[str], command: str, path: Path | None) -> None:
    """Add a table ``[[widened]]`` with these lines to the user's rules."""
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
        raise AnyshellError(f"no rule was added to {file}, which is not as it should be: {error}") from error
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
    if grant.seen.doubts:  # a rule with limits would not hold; this one is about all words, or there are none
        yield ""
        return
    for key in ("reads", "writes", "deletes"):
        if paths := getattr(access, key):
            yield f"{key} = [{', '.join(map(_text, paths))}]"
    if access.network:
        yield f"network = {'true' if '*' in access.network else '[' + ', '.join(map(_text, access.network)) + ']'}"
    if access.privilege or ARITY.get(grant.words[:1]) == 1:
        yield f"privilege = {'true' if access.privilege else 'false'}"  # with such a key, nothing else is allowed
    yield ""


def _same(rule: dict[str, object], other: dict[str, object]) -> bool:
    return {**rule, "name": ""} == {**other, "name": ""}


def _text(text: str) -> str:
    return json.dumps(text)  # of printable ASCII, which is the same in TOML
