"""Lessons, challenges and what is written by hand in them: judged by what the laboratory explores."""
