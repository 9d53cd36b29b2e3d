"""An environment: one host, one shell, one directory, and the commands that run there."""

from .detection import Detection as Detection
from .detection import offers_terminals as offers_terminals
from .dialogs import MAX_NAMED_SESSIONS as MAX_NAMED_SESSIONS
from .environment import Environment as Environment
from .options import MAX_TERMINALS as MAX_TERMINALS
from .options import EnvironmentOptions as EnvironmentOptions
from .options import to_redaction as to_redaction
