"""Conservative timestamp ordering, with and without analysis of what transactions declare."""

from __future__ import annotations

from coterie.transactions.catalogue import Scheme, SchemeVariant
from coterie.transactions.schemes.conservative.rules import FOREVER, Conservative

SCHEME = Scheme(
    name="conservative",
    title="wait until nothing older can come",
    source="Bernstein, Shipman and Rothnie, 1980",
    variants=(
        SchemeVariant(
            "classes",
            "only those wait for each other whose declarations meet",
            lambda site, sites: Conservative(sites=sites),
        ),
        SchemeVariant(
            "unanalysed",
            "every transaction waits for all older ones",
            lambda site, sites: Conservative(sites=sites, analysed=False),
        ),
    ),
    refuses="",
    waits="older transactions that may write what it reads, or touch what it writes, and the word "
    "of every site that none will come",
    order="by stamp",
)

__all__ = ["FOREVER", "SCHEME", "Conservative"]
