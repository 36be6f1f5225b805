"""The laboratory: a run by hand, and what each state and each move of it leads to."""
