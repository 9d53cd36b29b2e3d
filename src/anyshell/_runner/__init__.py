"""The assembly of a run for the engine: the options of a command, its variables, and the layers before its process."""

from .options import RunOptions as RunOptions
from .options import to_command as to_command
from .runner import Runner as Runner
