"""A terminal's screen: drawn from what a program prints, with its styles, and the text that it leaves."""
