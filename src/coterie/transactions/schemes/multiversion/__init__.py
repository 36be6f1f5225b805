"""Multiversion timestamp ordering: readers see the past as it was at their stamp."""

from __future__ import annotations

from coterie.transactions.catalogue import Scheme, SchemeVariant
from coterie.transactions.schemes.multiversion.printed import PrintedMultiversion
from coterie.transactions.schemes.multiversion.rules import Multiversion
from coterie.transactions.schemes.scheduler import BEGINNING

__all__ = ["SCHEME", "Multiversion", "PrintedMultiversion"]

VERSIONS_MAX = 100


def _unlimited(_site: int, sites: int) -> Multiversion:
    return Multiversion(promises=[BEGINNING] * sites)


def _limited(_site: int, sites: int) -> Multiversion:
    return Multiversion(promises=[BEGINNING] * sites, versions_max=VERSIONS_MAX)


SCHEME = Scheme(
    name="multiversion",
    title="readers see the past as it was at their stamp",
    source="D. P. Reed, 1978",
    variants=(
        SchemeVariant(
            "unlimited", "keeps every version that a transaction may still see", _unlimited
        ),
        SchemeVariant(
            "limited",
            f"keeps at most {VERSIONS_MAX} versions of a key and refuses reads of older ones",
            _limited,
        ),
    ),
    refuses="a later transaction has read what is to be replaced",
    waits="an earlier transaction that writes what is to be read, or has failed often",
    order="by stamp",
    flawed=(
        SchemeVariant(
            "printed",
            "the rule of the survey: a read sees what is before its stamp, so never its own write",
            lambda site, sites: PrintedMultiversion(promises=[BEGINNING] * sites),
        ),
    ),
)
