"""This process itself: its signals, its descriptors, and its handles on Windows."""
