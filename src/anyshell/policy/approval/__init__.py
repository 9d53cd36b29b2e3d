"""Approval: the question whether a command may run, the question's display, the approvers, and the grants of an answer."""
