"""Steps before a command runs: the command may be rewritten, then an approver is asked, or the command is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import importer

if TYPE_CHECKING:
    from .approval.approvers import approve_all as approve_all
    from .approval.approvers import ask_on_terminal as ask_on_terminal
    from .approval.approvers import deny_all as deny_all
    from .approval.approvers import yolo as yolo
    from .approval.asking import ask as ask
    from .approval.display import display as display
    from .approval.display import folded as folded
    from .approval.display import shortened as shortened
    from .approval.grants import covered as covered
    from .approval.grants import grants as grants
    from .approval.grants import label as label
    from .approval.queue import ApprovalQueue as ApprovalQueue
    from .approval.queue import Question as Question
    from .characters import printable as printable
    from .characters import visible as visible
    from .characters import visible_lines as visible_lines
    from .rewrite import leading_cd_into_cwd as leading_cd_into_cwd
else:
    __getattr__ = importer(
        __name__,
        {
            "approval.approvers": "approve_all ask_on_terminal deny_all yolo",
            "approval.asking": "ask",
            "approval.display": "display folded shortened",
            "approval.grants": "covered grants label",
            "approval.queue": "ApprovalQueue Question",
            "characters": "printable visible visible_lines",
            "rewrite": "leading_cd_into_cwd",
        },
    )

__all__ = [
    "ApprovalQueue",
    "Question",
    "approve_all",
    "ask",
    "ask_on_terminal",
    "covered",
    "deny_all",
    "display",
    "folded",
    "grants",
    "label",
    "leading_cd_into_cwd",
    "printable",
    "shortened",
    "visible",
    "visible_lines",
    "yolo",
]
