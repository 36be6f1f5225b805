"""Optimistic concurrency control, with parallel and with serial validation."""

from __future__ import annotations

from coterie.transactions.catalogue import Scheme, SchemeVariant
from coterie.transactions.schemes.optimistic.validation import Optimistic

SCHEME = Scheme(
    name="optimistic",
    title="read freely, validate before writing",
    source="Kung and Robinson, 1981",
    variants=(
        SchemeVariant(
            "parallel",
            "write phases overlap if they have nothing in common",
            lambda site, sites: Optimistic(site=site, sites=sites),
        ),
        SchemeVariant(
            "serial",
            "one write phase at a time; the others wait for it",
            lambda site, sites: Optimistic(site=site, sites=sites, serial=True),
        ),
    ),
    refuses="what it has read was written since, or another is about to write what it touches",
    waits="the end of a transaction that has failed often and runs alone; with serial validation "
    "for the write phase of another",
    order="that in which transactions were validated",
    keeps_age=True,
)

__all__ = ["SCHEME", "Optimistic"]
