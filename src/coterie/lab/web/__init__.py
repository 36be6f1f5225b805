"""The laboratory in the browser: the questions of its pages."""
