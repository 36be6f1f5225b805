"""Timestamp ordering with the write rule of Thomas."""

from __future__ import annotations

from coterie.transactions.catalogue import Scheme, SchemeVariant
from coterie.transactions.schemes.thomas_write_rule.printed import PrintedWriteRule
from coterie.transactions.schemes.thomas_write_rule.rules import ThomasWriteRule

__all__ = ["SCHEME", "PrintedWriteRule", "ThomasWriteRule"]

SCHEME = Scheme(
    name="thomas-write-rule",
    title="timestamp ordering that ignores writes no transaction can see any more",
    source="R. H. Thomas, 1979",
    variants=(SchemeVariant("basic", "with pre-writes", lambda site, sites: ThomasWriteRule()),),
    refuses="a later transaction has read the key, or written what is to be read",
    waits="an earlier transaction that writes what is to be read, or has failed often",
    order="by stamp",
    flawed=(
        SchemeVariant(
            "printed",
            "rule 4' of the survey: writes are ignored before it is asked who has read",
            lambda site, sites: PrintedWriteRule(),
        ),
    ),
)
