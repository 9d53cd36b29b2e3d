"""The reach of a command: its access to files and the network, and the enforcement of that access."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import importer

if TYPE_CHECKING:
    from .bubblewrap import SCOPED_SINCE as SCOPED_SINCE
    from .compiler import compile_reach as compile_reach
    from .compiler import lack_of as lack_of
    from .compiler import narrow as narrow
    from .gate import Gate as Gate
    from .gate import asking as asking
    from .host import ANSWER_BYTES as ANSWER_BYTES
    from .host import ANSWER_SECONDS as ANSWER_SECONDS
    from .host import Facts as Facts
    from .host import python_here as python_here
    from .host import question as question
    from .host import read_facts as read_facts
    from .places import PRIVATE as PRIVATE
    from .places import PROTECTED as PROTECTED
    from .places import SECRETS as SECRETS
    from .refusal import explain as explain
    from .refusal import explain_network as explain_network
    from .sandbox import NONE as NONE
    from .sandbox import Sandbox as Sandbox
    from .tables import REACH_SCHEMA as REACH_SCHEMA
    from .tables import read_reach as read_reach
    from .values import Limits as Limits
    from .values import Preset as Preset
    from .values import Reach as Reach
    from .values import Widened as Widened
    from .view import LocalPlaces as LocalPlaces
    from .view import lies_in as lies_in
else:
    __getattr__ = importer(
        __name__,
        {
            "bubblewrap": "SCOPED_SINCE",
            "compiler": "compile_reach lack_of narrow",
            "gate": "Gate asking",
            "host": "ANSWER_BYTES ANSWER_SECONDS Facts python_here question read_facts",
            "places": "PRIVATE PROTECTED SECRETS",
            "refusal": "explain explain_network",
            "sandbox": "NONE Sandbox",
            "tables": "REACH_SCHEMA read_reach",
            "values": "Limits Preset Reach Widened",
            "view": "LocalPlaces lies_in",
        },
    )
