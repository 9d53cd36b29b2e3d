"""A terminal's screen: drawn from the output of a program, with its styles, and the text of it."""
