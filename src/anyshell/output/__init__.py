"""The path of a command's output: read, decoded, bounded, counted, and kept whole in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import importer

if TYPE_CHECKING:
    from .artifacts import ArtifactStore as ArtifactStore
    from .pump import Pump as Pump
    from .screen.emulator import InputModes as InputModes
    from .screen.style import Span as Span
    from .screen.style import Style as Style
    from .screen.style import StyledScreen as StyledScreen
    from .screen.styled import StyledEmulator as StyledEmulator
    from .screen.terminal import TerminalOutput as TerminalOutput
    from .screen.terminal import check_scrollback as check_scrollback
    from .text.builder import Builder as Builder
    from .text.builder import OutputBuilder as OutputBuilder
    from .text.decode import LineDecoder as LineDecoder
    from .text.decode import OutputLine as OutputLine
    from .text.decode import Stretch as Stretch
    from .text.decode import TextDecoder as TextDecoder
    from .text.decode import clean as clean
    from .text.decode import unfinished as unfinished
    from .text.exact import ExactOutput as ExactOutput
    from .text.log import OutputLog as OutputLog
    from .text.pages import Page as Page
    from .text.pages import Recoder as Recoder
    from .text.search import Search as Search
    from .text.search import expression as expression
else:
    __getattr__ = importer(
        __name__,
        {
            "artifacts": "ArtifactStore",
            "pump": "Pump",
            "screen.emulator": "InputModes",
            "screen.style": "Span Style StyledScreen",
            "screen.styled": "StyledEmulator",
            "screen.terminal": "TerminalOutput check_scrollback",
            "text.builder": "Builder OutputBuilder",
            "text.decode": "LineDecoder OutputLine Stretch TextDecoder clean unfinished",
            "text.exact": "ExactOutput",
            "text.log": "OutputLog",
            "text.pages": "Page Recoder",
            "text.search": "Search expression",
        },
    )
