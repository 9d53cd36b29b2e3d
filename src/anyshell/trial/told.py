"""The changes of a layer as effects: the effects that the command would have without a layer."""

from __future__ import annotations

import binascii
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import effects as looks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._types import Effects
    from ..effects.look import Record as Facts
    from .hosts import Host

Record = tuple[str, int, int, int, int, int, int]
"""The record of a file, in the form of a look of `effects`."""


async def tell(host: Host, seconds: float) -> Effects:
    """Read a layer, and return the effects of its commit, with a diff.

    Args:
        host: The host of the layer.
        seconds: The time limit for the look at the layer's files.

    Raises:
        OSError: The layer cannot be read, or has too many files.
    """
    gone, new, linked, unseen = await host.ask("read", seconds)
    then: dict[str, Record] = {path: tuple(facts) for path, facts in gone}
    now: dict[str, Record] = {path: tuple(facts) for path, facts in new}
    # A file in the layer has another inode number than its original. Where the path or the content facts match, the file gets
    # the number of the original: `compare` recognises a renamed file by the number.
    old = {_content(facts): facts[4] for path, facts in then.items() if path not in now}
    for number, (path, facts) in enumerate(sorted(now.items()), 1):
        was = then.get(path)
        if was is None:
            inode = -number if stat.S_ISDIR(facts[1]) else old.pop(_content(facts), -number)
        else:
            inode = was[4] if stat.S_IFMT(was[1]) == stat.S_IFMT(facts[1]) else -number
        now[path] = (*facts[:4], inode, *facts[5:])
    before = looks.Look(_by_directory(then), unseen=frozenset(f"/./{path}" for path in unseen))
    effects = looks.compare(before, looks.Look(_by_directory(now)), {"": ""})
    kept = looks.to_keep(looks.parse(_by_directory(then), {"": ""}))
    named = {each.path for each in (*effects.changed, *effects.deleted)}
    first = await _contents(host, [path for path in kept if path in named], above=False)
    diff, without = looks.unified(effects, first, await _contents(host, looks.to_read(effects), above=True))
    why = []
    if linked:
        more = f" and {len(linked) - 1} more" if len(linked) > 1 else ""
        why.append(f"{linked[0]}{more} has other names (hard links), which would keep their content")
    if unseen:
        why.append(f"{len(unseen)} directories could not be looked at")
    return replace(effects, diff=diff, without_diff=without, incomplete=(*effects.incomplete, *why))


async def _contents(host: Host, paths: list[str], *, above: bool) -> dict[str, bytes]:
    found = await host.ask("contents", paths, above) if paths else {}
    return {path: binascii.a2b_base64(content) for path, content in found.items()}


def _content(facts: Record) -> tuple[int, int, int]:
    """Return the facts that identify a renamed file: its kind, its size, and the time of its content."""
    return stat.S_IFMT(facts[1]), facts[2], facts[5]


def _by_directory(files: Mapping[str, Record]) -> dict[str, list[Facts]]:
    found: dict[str, list[Facts]] = {}
    for path, facts in files.items():
        above = path.rpartition("/")[0]
        found.setdefault(f"/./{above}" if above else "/.", []).append(facts)
    return found
