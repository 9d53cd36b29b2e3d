"""The question whether a command may run: its display, its approvers, and the grants of an answer."""
