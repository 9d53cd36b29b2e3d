"""Terminals: programs that need one, and the code that types on it."""

from .controller import Controller as Controller
from .driven import ConsoleOpener as ConsoleOpener
from .driven import DrivenTerminal as DrivenTerminal
from .driven import Listener as Listener
from .secrets import SecretRequest as SecretRequest
from .secrets import SecretSource as SecretSource
