"""The commands ``replay`` and ``screenshot``, and all that plays or draws a recording for them alone."""
