"""The effects of a command on files: looks at directories before and after, and the difference between two looks."""

from .comparison import compare as compare
from .comparison import parse as parse
from .diff import LARGEST_FILE as LARGEST_FILE
from .diff import to_keep as to_keep
from .diff import to_read as to_read
from .diff import unified as unified
from .look import Look as Look
from .look import arguments as arguments
from .look import here as here
from .look import printed as printed
from .look import start as start
from .look import too_many as too_many
from .look import too_slow as too_slow
