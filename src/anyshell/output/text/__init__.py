"""The text of pipes: decoded, edited as a terminal would, bounded, searched."""
