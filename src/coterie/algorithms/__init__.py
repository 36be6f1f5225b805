"""The algorithms, as values: they do no input or output."""
