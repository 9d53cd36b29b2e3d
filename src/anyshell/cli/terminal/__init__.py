"""The person's terminal: its modes and keys, and the drawing on it."""
