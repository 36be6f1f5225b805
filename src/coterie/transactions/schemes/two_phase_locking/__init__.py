"""Strict two-phase locking, with three ways out of deadlock."""

from coterie.transactions.catalogue import Scheme, SchemeVariant
from coterie.transactions.schemes.two_phase_locking.deadlocks import (
    Detection,
    WaitDie,
    WoundWait,
)
from coterie.transactions.schemes.two_phase_locking.lock_table import (
    EXCLUSIVE,
    SHARED,
    UPDATE,
    Claim,
    LockTable,
    Mode,
)
from coterie.transactions.schemes.two_phase_locking.rules import TwoPhaseLocking

__all__ = [
    "EXCLUSIVE",
    "SCHEME",
    "SHARED",
    "UPDATE",
    "Claim",
    "Detection",
    "LockTable",
    "Mode",
    "TwoPhaseLocking",
    "WaitDie",
    "WoundWait",
]

SCHEME = Scheme(
    name="two-phase-locking",
    title="lock what you access, keep the locks to the end",
    source=(
        "K. P. Eswaran, J. N. Gray, R. A. Lorie, I. L. Traiger. The notions of consistency and"
        " predicate locks in a database system. Communications of the ACM 19(11), 1976."
    ),
    variants=(
        SchemeVariant(
            "detection",
            "wait; the youngest of a deadlock gives way",
            lambda site, sites: Detection(site=site),
        ),
        SchemeVariant(
            "wait-die",
            "the older waits, the younger gives way",
            lambda site, sites: WaitDie(site=site),
        ),
        SchemeVariant(
            "wound-wait",
            "the older pushes the younger out of its way, the younger waits",
            lambda site, sites: WoundWait(site=site),
        ),
    ),
    refuses="a deadlock, or by age when another is in the way",
    waits="for a lock that another transaction has, or has queued for",
    order="that in which transactions have got their last locks",
    keeps_age=True,
)
