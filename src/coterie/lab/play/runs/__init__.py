"""Runs by hand: as the text of an address, played, and begun where a trace or a scenario ends."""
