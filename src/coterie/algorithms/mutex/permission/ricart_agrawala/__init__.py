"""Ricart and Agrawala's algorithm: as published, and with permissions that are kept."""

from coterie.algorithms.mutex.permission.ricart_agrawala.catalogue_entry import ALGORITHM
from coterie.algorithms.mutex.permission.ricart_agrawala.plain import Reply, Request, RicartAgrawala
from coterie.algorithms.mutex.permission.ricart_agrawala.roucairol_carvalho import RoucairolCarvalho

__all__ = ["ALGORITHM", "Reply", "Request", "RicartAgrawala", "RoucairolCarvalho"]
