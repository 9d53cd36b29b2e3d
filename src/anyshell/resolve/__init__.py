"""Internal addresses in commands: their places, and their possible targets."""

from .root import Root as Root
from .root import contained as contained
from .words import Word as Word
from .words import find as find
