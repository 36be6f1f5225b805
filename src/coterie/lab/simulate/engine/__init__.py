"""The heart of the simulated world: events in virtual time, and the steps they lead to."""

from coterie.lab.simulate.engine.engine import Engine

__all__ = ["Engine"]
