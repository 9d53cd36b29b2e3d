"""The tool ``job``: commands in the background, and what the model is told of them."""
