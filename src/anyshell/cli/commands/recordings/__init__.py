"""The commands ``replay`` and ``screenshot``, and the code with which only these commands play or draw a recording."""
