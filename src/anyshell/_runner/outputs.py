"""The builders of a command's output: on pipes, on a terminal, and recorded."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ..output import OutputBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._types import HostInfo, OutputLimits, Recording, ShellInfo, Terminal
    from ..output import TerminalOutput
    from ..output.text.builder import Builder
    from ..output.text.keeper import OutputStore
    from ..recordings.recorder import Recorder
    from ..terminal import Controller


class OutputContext(Protocol):
    """The part of a `Runner` that the builders need.

    Attributes:
        info: The host's facts.
        limits: The limits of an output's text.
        shell: The shell that runs the commands.
    """

    info: HostInfo
    limits: OutputLimits
    shell: ShellInfo

    def code_page(self, terminal: Terminal | None) -> int | None:
        """Return the code page of output that is not UTF-8."""


def pipes_output(
    where: OutputContext, store: OutputStore | None, *, limits: OutputLimits | None = None
) -> Builder:
    """Return the builder of the output of a command on pipes."""
    limits = limits or where.limits
    if limits.exact:
        from ..output import ExactOutput  # imported here: few commands ask for exact output

        bounded = partial(pipes_output, where, store, limits=replace(limits, exact=False))
        return ExactOutput(limits.size, bounded, code_page=where.info.code_page)
    head, tail, excerpts, max_line = limits.parts
    return OutputBuilder(
        head=head,
        tail=tail,
        excerpts=excerpts,
        max_line=max_line,
        keep_from=limits.keep_from,
        artifacts=store,
        name_path=where.info.is_this_machine,
        code_page=where.info.code_page,
    )


def terminal_output(
    where: OutputContext,
    terminal: Terminal,
    store: OutputStore | None,
    answer: Callable[[bytes], object] | None = None,
    *,
    answers: bool = True,
    scrollback: int | None = None,
    limits: OutputLimits | None = None,
) -> TerminalOutput:
    from ..output import TerminalOutput  # imported here: few commands have a terminal

    return TerminalOutput(
        terminal,
        **(limits or where.limits).parts._asdict(),
        artifacts=store,
        name_path=where.info.is_this_machine,
        answer=answer if answers else None,
        scrollback=scrollback,
    )


def controller_of(
    where: OutputContext,
    terminal: Terminal,
    store: OutputStore | None,
    *,
    answers: bool = True,
    scrollback: int | None = None,
    limits: OutputLimits | None = None,
) -> Controller:
    """Return a controller, which stands before a program on a terminal.

    Args:
        where: The host and its settings.
        terminal: The terminal of the program.
        store: The store of the whole output.
        answers: Whether the terminal answers the queries of programs.
        scrollback: Rows that are kept once they have left the screen; ``None`` keeps no colours either.
        limits: The limits of the output's text; ``None`` is the limits of the environment.
    """
    from ..terminal import Controller  # imported here, as above

    output = partial(
        terminal_output, where, terminal, store, answers=answers, scrollback=scrollback, limits=limits
    )
    tells = where.info.os == "linux"  # there, the kernel tells in which call a process sleeps
    return Controller(output, tells=tells)


def recorder_of(
    where: OutputContext,
    recording: Recording | None,
    terminal: Terminal | None,
    controller: Controller | None,
) -> Recorder | None:
    """Return the recorder of a run; ``None`` without a recording."""
    if recording is None:
        return None
    from ..recordings.recorder import Recorder  # imported here: few runs are recorded

    return Recorder(
        recording,
        terminal=terminal,
        shell=where.shell.path,
        masks=None if controller is None else controller.masks,
        code_page=where.code_page(terminal),
    )
