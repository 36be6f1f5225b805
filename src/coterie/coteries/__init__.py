"""Quorum systems as values: constructions, laws, measures, and replacement of failed members."""

from coterie.coteries.availability import Availability
from coterie.coteries.coterie import Coterie, Quorum
from coterie.coteries.grid import grid
from coterie.coteries.load import Load
from coterie.coteries.plane import projective_plane, relaxed_plane
from coterie.coteries.replacement import Keep
from coterie.coteries.specification import parse_coterie
from coterie.coteries.tree import tree
from coterie.coteries.update_table import UpdateTable
from coterie.coteries.votes import majority, singleton, unanimous, weighted

__all__ = [
    "Availability",
    "Coterie",
    "Keep",
    "Load",
    "Quorum",
    "UpdateTable",
    "grid",
    "majority",
    "parse_coterie",
    "projective_plane",
    "relaxed_plane",
    "singleton",
    "tree",
    "unanimous",
    "weighted",
]
