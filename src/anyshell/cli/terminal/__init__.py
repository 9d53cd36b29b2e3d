"""The person's terminal: modes, keys and drawing."""
