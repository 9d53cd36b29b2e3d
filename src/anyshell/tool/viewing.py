"""The lines that a last ``| head`` or ``| tail`` asks for; the whole output is kept."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from .._exceptions import AnyshellError
from .._types import Output
from ..output import OutputBuilder
from ..output.selection import ArtifactAddress, Selection

if TYPE_CHECKING:
    from .._environment import Environment
    from .._types import Outcome, OutputLimits
    from ..output import ArtifactStore
    from ..policy.view_limit import ViewLimit

LARGEST_VIEW = 4 * 1024 * 1024
"""Bytes of the lines that a ``head`` or ``tail`` asks for; with more, the output is bounded like any other."""


class ShownLines(NamedTuple):
    """The lines of stdout that are shown.

    Attributes:
        first, last: The first and the last shown line, counted from 1.
        total: The lines of stdout; the last line need not end with a line feed.
        whole: Whether there was room for all requested lines.
    """

    first: int
    last: int
    total: int
    whole: bool

    def __str__(self) -> str:
        """Return the range of lines in words, for a model."""
        lines = (
            f"line {self.first:,}" if self.first == self.last else f"lines {self.first:,} to {self.last:,}"
        )
        return f"{lines} of {self.total:,}{'' if self.whole else ', as far as there is room'}"


def installed() -> bool:
    """Whether the parser that finds a last ``| head`` or ``| tail`` is installed."""
    from ..policy.parse.grammar import installed  # a late import, since the module loads the parser

    return installed("bash")


def limited_view(text: str, env: Environment) -> ViewLimit | None:
    """Return the view limit at the end of a command's text; ``None`` where the text is to run unchanged."""
    from ..policy.parse import parse
    from ..policy.view_limit import view_limit

    # With a snapshot, the user's own aliases and functions may redefine head and tail.
    if env.artifacts is None or env.snapshot is not None or env.shell.kind not in ("bash", "sh", "zsh"):
        return None
    return view_limit(parse(text.strip(), env.shell.kind))


def limits_of(env: Environment) -> OutputLimits:
    """Return the limits for a command with a view limit; with these limits the whole output is kept."""
    return replace(env.limits, keep_from=1)


async def shown(limit: ViewLimit, outcome: Outcome, env: Environment) -> tuple[Outcome, ShownLines | None]:
    """Return an outcome reduced by a view limit, with stdout and stderr as one output, and the shown lines of stdout.

    All of stderr is shown, since stderr does not go through the pipe. stderr takes its place in the pipeline: before the
    output of ``tail``, which prints at its end, and after the output of ``head``, which prints at once.

    Returns:
        The outcome, and the shown lines; ``None`` for the lines if the limit left out nothing or could not be applied.
    """
    output, errors = outcome.output, outcome.stderr or Output()
    lines = None
    if outcome.status != "running":
        made = await anyio.to_thread.run_sync(_limited, limit, output, env)
        output, lines = (await anyio.to_thread.run_sync(_shed, output), None) if made is None else made
        errors = await anyio.to_thread.run_sync(_shed, errors)
    before, after = (errors.text, output.text) if limit.head is None else (output.text, errors.text)
    between = "\n" * bool(before and after and not before.endswith("\n"))
    together = _together(output, errors, f"{before}{between}{after}")
    return replace(outcome, output=together, stderr=None), lines


def _limited(limit: ViewLimit, output: Output, env: Environment) -> tuple[Output, ShownLines] | None:
    artifact, store = output.artifact, env.artifacts
    if artifact is None or artifact.omitted_bytes or output.binary is not None or store is None:
        return None
    try:
        total = output.total_lines + _ends_within_a_line(store, artifact.id)
        first, last = limit.lines(total)
        if (first, last) == (1, total):
            return None
        view = store.view(ArtifactAddress(artifact.id, Selection(lines=(first, last))), limit=LARGEST_VIEW)
    except (OSError, AnyshellError):  # the artifact was removed since
        return None
    if view.next is not None:
        return None
    builder = OutputBuilder(**env.limits.parts._asdict(), code_page=env.info.code_page)
    builder.feed(view.data)
    part = builder.finish()
    head, tail, *excerpts = (
        None if each is None else (each[0] + first - 1, each[1] + first - 1)
        for each in (part.head_range, part.tail_range, *part.excerpts)
    )
    whole = not part.truncated or bool(part.cut_lines and (part.head_range or part.tail_range) is None)
    if whole:
        head, tail = (None, (first, last)) if limit.head is None else ((first, last), None)
    limited = replace(
        output,
        text=part.text,
        omitted_bytes=output.total_bytes - part.total_bytes + part.omitted_bytes,
        omitted_lines=output.total_lines - part.total_lines + part.omitted_lines,
        head_range=head,
        tail_range=tail,
        excerpts=tuple(each for each in excerpts if each is not None),
        cut_lines=part.cut_lines,
    )
    return limited, ShownLines(first, last, total, whole)


def _ends_within_a_line(store: ArtifactStore, artifact_id: str) -> bool:
    with store.open(artifact_id) as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _shed(output: Output) -> Output:
    """Return an output without its artifact, and delete the artifact's file, if the whole output is shown."""
    if output.artifact is None or output.truncated:
        return output
    with contextlib.suppress(OSError):
        output.artifact.path.unlink()
    return replace(output, artifact=None)


def _together(output: Output, errors: Output, text: str) -> Output:
    """Return stdout and stderr as one output: summed counts, and the ranges of stdout if truncated, otherwise of stderr."""
    if not errors.total_bytes:
        return output
    of = output if output.truncated else errors
    return replace(
        of,
        text=text,
        total_bytes=output.total_bytes + errors.total_bytes,
        omitted_bytes=output.omitted_bytes + errors.omitted_bytes,
        total_lines=output.total_lines + errors.total_lines,
        omitted_lines=output.omitted_lines + errors.omitted_lines,
        cut_lines=output.cut_lines + errors.cut_lines,
        masked=output.masked + errors.masked,
        binary=output.binary,
        images=output.images + errors.images,
        nul_bytes=output.nul_bytes + errors.nul_bytes,
    )
