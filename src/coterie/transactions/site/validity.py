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
    Acknowledge,
    Ask,
    Collect,
    Collected,
    Decide,
    Inquire,
    Pending,
    Prepare,
    Promise,
    Reply,
    Sacrifice,
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
            _check_ask(sender, message, latest, sites)
        case Reply():
            if message.answer.transaction != message.name:
                raise _fault("an answer to another transaction")
            _check_coordinator(message.name, me, sites, "an answer to")
        case Prepare():
            _check_prepare(sender, message, me, sites)
        case Vote(_, name, number):
            _check_time(number.time, latest)
            _check_coordinator(name, me, sites, "an answer to")
        case Decide(_, name, Stamp(time)):
            _check_time(time, latest)
            _coordinator(name, sites)
        case Decide() | Acknowledge() | Inquire() | Pending() | Sacrifice():
            _coordinator(message.name, sites)
        case Want(_, stamp) | Promise(_, stamp):
            _check_time(stamp.time, latest)
        case Collect():
            pass
        case Collected():
            _check_collected(sender, message, latest, sites)


def _check_ask(sender: ProcessId, message: Ask, latest: LogicalTime, sites: int) -> None:
    if message.count <= len(message.writes):
        raise _fault("a request before the first")
    opening = message.opening
    if opening is not None:
        if opening.name != message.name:
            raise _fault("a beginning of another transaction")
        _check_attempt(opening, latest, sites)
    _check_coordinator(message.name, sender, sites, "a request for")


def _check_prepare(sender: ProcessId, message: Prepare, me: ProcessId, sites: int) -> None:
    parts = message.sites
    if list(parts) != sorted(set(parts)) or me not in parts:
        raise _fault("sites out of order")
    if parts[0] < 1 or parts[-1] > sites:
        raise _fault("sites that do not exist")
    _check_coordinator(message.name, sender, sites, "a request for")


def _check_collected(
    sender: ProcessId, message: Collected, latest: LogicalTime, sites: int
) -> None:
    for waiter in message.waiters:
        if waiter.site != sender:
            raise _fault("a wait at another site")
        _check_attempt(waiter.attempt, latest, sites)


def _fault(words: str) -> ProtocolError:
    return ProtocolError(f"a message that no correct site sends: {words}")


def _check_coordinator(name: Name, coordinator: ProcessId, sites: int, what: str) -> None:
    if _coordinator(name, sites) != coordinator:
        raise _fault(f"{what} a transaction of another site")


@functools.lru_cache(maxsize=1024)  # each message of a transaction names it
def _coordinator(name: Name, sites: int) -> ProcessId:
    time, dot, site = name.partition(".")
    digits = (time + site).isascii() and time.isdigit() and site.isdigit()
    if not dot or not digits or len(name) >= 50:
        raise _fault(f"a transaction named {name!r:.50}")
    if not 1 <= int(site) <= sites:
        raise _fault(f"a transaction of site {site}")
    return int(site)


def _check_attempt(attempt: Attempt, latest: LogicalTime, sites: int) -> None:
    _coordinator(attempt.name, sites)
    if attempt.name != str(attempt.stamp):
        raise _fault("a stamp that is not the transaction's")
    _check_time(attempt.stamp.time, latest)
    _check_time(attempt.age.time, latest)


def _check_time(time: LogicalTime, latest: LogicalTime) -> None:
    if time > latest:
        raise _fault(f"a clock at {time}, which no site can have reached")
