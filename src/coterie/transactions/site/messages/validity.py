"""What a message of another site may say, checked before anything comes of it.

A site takes a message whole or not at all: a handler that found a fault halfway would leave a step half
done. So names, stamps and sites are looked at first. A clock may be ahead of ours, but not by more than
any site could have counted: one absurd number would otherwise become the clock of all sites, for good.
So a message from further ahead is not taken, and a site comes to such a time in leaps of `LEAP_MAX`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from coterie.clocks import Stamp
from coterie.errors import ProtocolError
from coterie.transactions.site.messages import (
    Ask,
    Collect,
    Collected,
    Decide,
    Prepare,
    Promise,
    Reply,
    Vote,
    Want,
)

if TYPE_CHECKING:
    from coterie.clocks import LogicalTime
    from coterie.process import ProcessId
    from coterie.transactions.schemes.scheduler import Attempt, Name
    from coterie.transactions.site.messages import Message

LEAP_MAX = 1 << 40  # of a clock, between two messages of a site


def check_message(
    sender: ProcessId, message: Message, me: ProcessId, sites: int, latest: LogicalTime
) -> None:
    """Raise `ProtocolError` if no correct site sends this to site `me` by that time."""
    match message:
        case Ask():
            _insist(message.count > len(message.writes), "a request before the first")
            opening = message.opening
            if opening is not None:
                _insist(opening.name == message.name, "a beginning of another transaction")
                _check_attempt(opening, latest, sites)
        case Reply():
            same = message.answer.transaction == message.name
            _insist(same, "an answer to another transaction")
        case Prepare():
            parts = message.sites
            _insist(parts == tuple(sorted(set(parts))) and me in parts, "sites out of order")
            _insist(parts[0] >= 1 and parts[-1] <= sites, "sites that do not exist")
        case Vote(_, _, number) | Decide(_, _, Stamp() as number):
            _check_time(number.time, latest)
        case Want(_, stamp) | Promise(_, stamp):
            _check_time(stamp.time, latest)
            return
        case Collect():
            return
        case Collected(_, _, waiters):
            for waiter in waiters:
                _insist(waiter.site == sender, "a wait at another site")
                _check_attempt(waiter.attempt, latest, sites)
            return
        case _:
            pass
    coordinator = _coordinator(message.name, sites)
    if isinstance(message, (Ask, Prepare)):
        _insist(coordinator == sender, "a request for a transaction of another site")
    elif isinstance(message, (Reply, Vote)):
        _insist(coordinator == me, "an answer to a transaction of another site")


def _insist(fine: bool, fault: str) -> None:
    if not fine:
        raise ProtocolError(f"a message that no correct site sends: {fault}")


@functools.lru_cache(maxsize=1024)  # each message of a transaction names it
def _coordinator(name: Name, sites: int) -> ProcessId:
    time, dot, site = name.partition(".")
    digits = (time + site).isascii() and time.isdigit() and site.isdigit()
    _insist(bool(dot) and digits and len(name) < 50, f"a transaction named {name!r:.50}")
    _insist(1 <= int(site) <= sites, f"a transaction of site {site}")
    return int(site)


def _check_attempt(attempt: Attempt, latest: LogicalTime, sites: int) -> None:
    _coordinator(attempt.name, sites)
    _insist(attempt.name == str(attempt.stamp), "a stamp that is not the transaction's")
    _check_time(attempt.stamp.time, latest)
    _check_time(attempt.age.time, latest)


def _check_time(time: LogicalTime, latest: LogicalTime) -> None:
    if time > latest:
        _insist(False, f"a clock at {time}, which no site can have reached")
