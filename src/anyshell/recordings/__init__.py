"""Recordings of a terminal as asciicast files, for asciinema's player and other players."""

from .asciicast import AsciicastWriter as AsciicastWriter
from .asciicast import Event as Event
from .asciicast import Header as Header
from .asciicast import Theme as Theme
from .asciicast import read as read
