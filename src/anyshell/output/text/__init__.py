"""The text of output from pipes: decoded, edited as on a terminal, bounded, searched."""
