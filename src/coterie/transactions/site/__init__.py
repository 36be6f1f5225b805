"""Stores that are spread over several sites: two-phase commit around the scheduler of each."""

from coterie.transactions.site.placement import site_of
from coterie.transactions.site.site import Site

__all__ = ["Site", "site_of"]
