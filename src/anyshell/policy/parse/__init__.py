"""What a text runs, before it runs."""
