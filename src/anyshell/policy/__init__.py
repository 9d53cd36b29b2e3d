"""What happens to a command before it runs: it may be rewritten, then an approver is asked, or it is refused."""

from __future__ import annotations

from .approval import approve_all, ask, ask_on_terminal, deny_all
from .display import display, folded, printable, visible, visible_lines
from .rewrite import leading_cd_into_cwd

__all__ = [
    "approve_all",
    "ask",
    "ask_on_terminal",
    "deny_all",
    "display",
    "folded",
    "leading_cd_into_cwd",
    "printable",
    "visible",
    "visible_lines",
]
