"""Timestamp ordering with the write rule of Thomas."""

from __future__ import annotations

from coterie.transactions.catalogue import Scheme, SchemeVariant
from coterie.transactions.schemes.thomas_write_rule.rules import ThomasWriteRule

__all__ = ["SCHEME", "ThomasWriteRule"]

SCHEME = Scheme(
    name="thomas-write-rule",
    title="timestamp ordering that ignores writes no transaction can see any more",
    source="R. H. Thomas, 1979",
    variants=(SchemeVariant("basic", "with pre-writes", lambda site, sites: ThomasWriteRule()),),
    refuses="a later transaction has read the key, or written what is to be read",
    waits="an earlier transaction that writes what is to be read, or has failed often",
    order="by stamp",
)
