"""What the survey, the paper and the lectures state, each statement beside the command that judges it.

A statement is data: our words for it, a verdict, a command and what that must print. Pages and the
command `coterie sources` are made from it, so nothing is said of a statement in two places.
"""

from coterie.lab.sources.catalogue import SOURCES, source
from coterie.lab.sources.statement import Section, Source, Statement, Verdict

__all__ = ["SOURCES", "Section", "Source", "Statement", "Verdict", "source"]
