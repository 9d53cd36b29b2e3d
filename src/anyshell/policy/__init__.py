"""What happens to a command before it runs: it may be rewritten, then an approver is asked, or it is refused."""

from __future__ import annotations

from .approval.approvers import approve_all, ask_on_terminal, deny_all, yolo
from .approval.asking import ask
from .approval.display import display, folded, shortened
from .approval.grants import covered, grants, label
from .approval.queue import ApprovalQueue, Question
from .characters import printable, visible, visible_lines
from .rewrite import leading_cd_into_cwd

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
