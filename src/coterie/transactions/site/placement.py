"""Which site keeps which key: one rule that all sites share, so that there is no table to ask.

A key is kept by the site that its checksum (CRC-32 of its UTF-8 form, modulo the number of sites)
names. So keys spread evenly whatever their names, and a range of keys may be anywhere: a scan asks
every site, unless it covers one key only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.process import ProcessId


def site_of(key: str, sites: int) -> ProcessId:
    """Return the site that keeps a key."""
    return crc32(key.encode()) % sites + 1


def sites_of(span: Span, sites: int) -> list[ProcessId]:
    """Return the sites that may keep keys of a span, in order."""
    if span == Span.of(span.low):
        return [site_of(span.low, sites)]
    return list(range(1, sites + 1))


def sites_of_all(spans: Iterable[Span], sites: int) -> list[ProcessId]:
    """Return the sites that may keep keys of any of these spans, in order."""
    return sorted({site for span in spans for site in sites_of(span, sites)})
