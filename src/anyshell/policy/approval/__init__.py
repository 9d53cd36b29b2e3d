"""The question whether a command may run: what a person sees, who answers, and what an answer grants."""
