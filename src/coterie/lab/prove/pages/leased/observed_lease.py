"""A lease that is counted by those who wait: never are two holds valid, on a server without timers.

A server that compares and sets keeps one row for a lock: a session and a counter. The holder renews by
raising the counter, and counts its lease from the moment in which it sent that. One who waits reads the
row, and removes it if the counter is the same after `patience` on its own clock. `span` and `patience` are
the longest and the shortest real time of a lease and of that wait, by clocks that run at any rate within
bounds. Requests may come late or never; a session has the lock once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Page, Real, Thing, become, each, later, none, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("observed-lease", "for any number of programs")


class Session(Thing):
    """Of a program that wants the lock; each takes it once."""


class Request(Thing):
    """To take the lock or to keep it."""


class Observer(Thing):
    """One that waits."""


of = page.function("of", Request, to=Session, fixed=True)
span = page.variable("span", Real, fixed=True)
patience = page.variable("patience", Real, fixed=True)

now = page.variable("now", Real)
row = page.relation("row", Session)  # the server has it
taken = page.relation("taken", Session)  # ever
raised = page.function("raised", Session, to=Real)  # when its counter changed last
sent = page.relation("sent", Request)
sent_at = page.function("sent_at", Request, to=Real)
done = page.relation("done", Request)  # by the server; the answer may be under way
has = page.relation("has", Session)  # it knows that it has taken the lock, and has not left
lease = page.function("lease", Session, to=Real)  # until then it relies on that
read = page.relation("read", Observer, Session)  # the counter as it is now
noted = page.relation("noted", Observer, Session)  # that reading has arrived …
noted_at = page.function("noted_at", Observer, Session, to=Real)  # … at this time


def valid(s: Session) -> Formula:
    return has(s) & (now < lease(s))


@page.axiom
def observers_are_as_patient_as_leases_last() -> Formula:
    return (span > 0) & (span <= patience)


@page.start
def the_lock_is_free(s: Session, f: Request, w: Observer) -> Formula:
    sessions = ~row(s) & ~taken(s) & ~has(s) & (lease(s) <= raised(s)) & (raised(s) <= now)
    return sessions & ~sent(f) & ~done(f) & ~read(w, s) & ~noted(w, s)


@page.action
def time_passes(d: Real) -> None:
    when(d > 0)
    become(now, now + d)


@page.action
def send(f: Request) -> None:
    when(~sent(f))
    sent[f] = True
    sent_at[f] = now


@page.action
def take(f: Request) -> None:
    """The server compares: there is no row."""
    when(sent(f), ~taken(of(f)), none(Session, row))
    row[of(f)] = True
    taken[of(f)] = True
    raised[of(f)] = now
    done[f] = True


@page.action
def renew(f: Request) -> None:
    """The server compares: this session has the row. Its counter is another one from now on."""
    when(sent(f), row(of(f)))
    raised[of(f)] = now
    done[f] = True
    read[each, of(f)] = lambda w: False


@page.action
def receive_answer(f: Request) -> None:
    when(done(f))
    has[of(f)] = True
    lease[of(f)] = later(lease(of(f)), sent_at(f) + span)


@page.action
def look(w: Observer, s: Session) -> None:
    """The server reads the row for one that waits."""
    when(row(s))
    read[w, s] = True
    noted[w, s] = False


@page.action
def note(w: Observer, s: Session) -> None:
    """The reading arrives, and the wait begins on the clock of the observer."""
    when(read(w, s), ~noted(w, s))
    noted[w, s] = True
    noted_at[w, s] = now


@page.action
def bury(w: Observer, s: Session) -> None:
    """The server compares: the counter is still the one that was read."""
    when(row(s), read(w, s), noted(w, s), noted_at(w, s) + patience <= now)
    row[s] = False


@page.action
def leave(s: Session) -> None:
    """The holder gives the lock back, and relies on it no more."""
    when(has(s))
    has[s] = False
    lease[s] = raised(s)
    row[s] = False
    done[each] = lambda f: done(f) & (of(f) != s)


@page.theorem
def mutual_exclusion(s: Session, t: Session) -> Formula:
    return (valid(s) & valid(t)) >> (s == t)


@page.safety
def a_valid_hold_is_on_the_server(s: Session) -> Formula:
    return valid(s) >> row(s)


@page.invariant
def one_row(s: Session, t: Session) -> Formula:
    return (row(s) & row(t)) >> (s == t)


@page.invariant
def a_row_was_taken(s: Session, f: Request) -> Formula:
    return ((row(s) | has(s)) >> taken(s)) & (done(f) >> (sent(f) & taken(of(f))))


@page.invariant
def a_lease_follows_the_counter(s: Session) -> Formula:
    return (lease(s) <= raised(s) + span) & (raised(s) <= now)


@page.invariant
def requests_were_sent_before_they_were_done(f: Request) -> Formula:
    return (sent(f) >> (sent_at(f) <= now)) & (done(f) >> (sent_at(f) <= raised(of(f))))


@page.invariant
def what_was_noted_is_no_older_than_the_counter(w: Observer, s: Session) -> Formula:
    return read(w, s) >> (taken(s) & (noted(w, s) >> (raised(s) <= noted_at(w, s))))


@page.invariant
def what_is_buried_is_over(s: Session, f: Request) -> Formula:
    """Answers that come late say nothing of the time after."""
    over = taken(s) & ~row(s)
    return (over & (has(s) | (done(f) & (of(f) == s)))) >> (raised(s) + span <= now)


from_arrival = page.flaw("lease-from-arrival")


@from_arrival.instead_of(receive_answer)
def receive_answer_and_count_from_now(f: Request) -> None:
    when(done(f))
    has[of(f)] = True
    lease[of(f)] = now + span


blind = page.flaw("buries-without-comparing")


@blind.instead_of(bury)
def bury_what_was_seen_once(w: Observer, s: Session) -> None:
    """It does not look whether the counter has changed since."""
    when(row(s), noted(w, s), noted_at(w, s) + patience <= now)
    row[s] = False
