"""The screen of a terminal, drawn from a program's output, with styles, and the text of the screen."""
