"""What becomes of a command's output: carried, decoded, bounded, counted, and kept whole in a file."""

from .artifacts import ArtifactStore as ArtifactStore
from .builder import Builder as Builder
from .builder import OutputBuilder as OutputBuilder
from .decode import Line as Line
from .decode import LineDecoder as LineDecoder
from .decode import Stretch as Stretch
from .decode import TextDecoder as TextDecoder
from .decode import clean as clean
from .decode import unfinished as unfinished
from .emulator import Modes as Modes
from .log import OutputLog as OutputLog
from .pages import Page as Page
from .pages import Recoder as Recoder
from .pump import Pump as Pump
from .search import Search as Search
from .search import expression as expression
from .style import Span as Span
from .style import Style as Style
from .style import StyledScreen as StyledScreen
from .styled import StyledEmulator as StyledEmulator
from .terminal import TerminalOutput as TerminalOutput
from .terminal import check_scrollback as check_scrollback
