"""The person's terminal: its modes and keys, and what is drawn on it."""
