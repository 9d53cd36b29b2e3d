"""The tool ``job``: what goes on when a call has returned, in the background or on a terminal, and what is said of it."""
