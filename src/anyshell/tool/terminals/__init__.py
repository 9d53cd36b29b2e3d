"""The tool ``terminal``: programs on terminals, and what the model is told of them."""
