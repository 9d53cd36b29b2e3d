"""The command ``doctor``: what is here or on a host, and what is missing."""
