"""`coterie simulate-stack`, which stands beside `coterie simulate`."""

from coterie.cli.simulate.stack import command

__all__ = ["command"]
