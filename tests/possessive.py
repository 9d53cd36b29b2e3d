"""Print the patterns of anyshell that Python before 3.11.5 would match wrongly, as it has them after `portable`.

``python -m tests.possessive``: the patterns that a plain import of every module compiles, those of the presets and of the
minimizer's rules, and the constants of modules.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PARSER: Any = importlib.import_module("re._parser")
_COMPILER: Any = importlib.import_module("re._compiler")

_NAMES = "LITERAL NOT_LITERAL IN ANY AT GROUPREF RANGE CATEGORY NEGATE"
_SINGLE = {getattr(_PARSER, name) for name in _NAMES.split()}
"""Parts that leave the place of the match as it is when they fail."""

_BETWEEN = ("re", "functools")
"""Packages between the code that has a pattern and the compiler of patterns."""

_WITHOUT = ("anyshell.acp", "anyshell.adapters", "anyshell.mcp", "anyshell.ray")
"""Doors without such patterns, whose frameworks take seconds to import."""

_REPEATS = {_PARSER.MAX_REPEAT, _PARSER.MIN_REPEAT, _PARSER.POSSESSIVE_REPEAT}


def moves(parts: Iterable[tuple[Any, Any]]) -> bool:
    """Whether a failed match of these parts may leave the place of the match moved, as `portable` describes. In doubt it does."""
    parts = list(parts)
    if all(kind in _SINGLE for kind, _ in parts):
        return False
    if len(parts) > 1:
        return True
    kind, value = parts[0]
    if kind in _REPEATS:
        return moves(value[2])
    if kind is _PARSER.BRANCH:
        return any(map(moves, value[1]))
    return moves(value[3]) if kind is _PARSER.SUBPATTERN else True


def possessive_groups(parts: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    """The bodies of all possessive repeats in a parsed pattern."""
    for kind, value in parts:
        if kind is _PARSER.POSSESSIVE_REPEAT:
            yield value[2]
        for inner in _inside(kind, value):
            yield from possessive_groups(inner)


def _inside(kind: Any, value: Any) -> list[Any]:
    if kind in _REPEATS:
        return [value[2]]
    if kind is _PARSER.BRANCH:
        return list(value[1])
    if kind is _PARSER.SUBPATTERN:
        return [value[3]]
    if kind is _PARSER.ATOMIC_GROUP:
        return [value]
    if kind in (_PARSER.ASSERT, _PARSER.ASSERT_NOT):
        return [value[1]]
    return [each for each in value[1:] if each] if kind is _PARSER.GROUPREF_EXISTS else []


def is_mismatched(pattern: str | bytes, flags: int = 0) -> bool:
    """Whether Python before 3.11.5 may match a pattern wrongly."""
    return any(map(moves, possessive_groups(_PARSER.parse(pattern, flags))))


def main() -> None:
    """Import all of anyshell as if this Python matched possessive groups wrongly, and print what is not `portable`."""
    patterns: Any = importlib.import_module("anyshell._patterns")
    patterns.MISMATCHED = True
    compiled: dict[tuple[str | bytes, int], str] = {}
    compile_pattern = _COMPILER.compile

    def remembered(pattern: Any, flags: Any = 0) -> Any:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
            frame = frame.f_back
        name = frame.f_globals.get("__name__", "")
        if isinstance(pattern, str | bytes) and name.startswith("anyshell"):
            compiled.setdefault((pattern, int(flags)), f"{name}:{frame.f_lineno}")
        return compile_pattern(pattern, flags)

    _COMPILER.compile = remembered
    import anyshell
    from anyshell import Policy
    from anyshell.output.minimize.rules import packaged
    from anyshell.policy.presets import PRESETS

    for module in pkgutil.walk_packages(anyshell.__path__, "anyshell."):
        if not module.name.startswith(_WITHOUT):
            with contextlib.suppress(ImportError, AssertionError):  # modules of other systems
                importlib.import_module(module.name)
    for preset in PRESETS:
        Policy.preset(preset)
    packaged()
    for name, loaded in sorted(sys.modules.items()):
        for constant, value in vars(loaded).items() if name.startswith("anyshell") else ():
            if isinstance(value, str | bytes) and not constant.startswith("__"):
                compiled.setdefault((value, 0), f"{name}.{constant}")
    print(f"{len(compiled)} patterns and texts")
    for (pattern, flags), place in compiled.items():
        with contextlib.suppress(re.error, OverflowError):  # most constants are no patterns
            if is_mismatched(pattern, flags):
                print(f"{place}: {pattern!r}")


if __name__ == "__main__":
    main()
