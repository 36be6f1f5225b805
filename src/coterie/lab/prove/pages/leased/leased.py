"""The leased quorum lock: never are two holds valid at one moment, over any coterie (P1).

Times are real numbers. `span` is the longest real time for which a participant counts a frame that
it sent, L / (1 - r), and `patience` the shortest after which a voter forgets a silent session, and
for which it abstains after a start, E / (1 + r). Numbers in brackets are those of the rules of
docs/protocol/leased-rules.md. Frames may come late, twice or never; voters crash and start again.
Sessions are taken as ordered and exactly-once [4]; one lock, for one holder at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Page, Real, Thing, become, each, every, later, none, some, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("leased", "for any number of voters and participants, and every coterie")


class Participant(Thing):
    """One that wants the lock."""


class Voter(Thing):
    """One that gives its vote to one participant at a time."""


class Quorum(Thing):
    """A set of voters."""


class Session(Thing):
    """Of one participant with one start of a voter."""


class Tenure(Thing):
    """Of a vote, from its grant on."""


class Frame(Thing):
    """A sign of life that a participant sends in a session."""


member = page.relation("member", Voter, Quorum, fixed=True)
who = page.function("who", Session, to=Participant, fixed=True)
at = page.function("at", Session, to=Voter, fixed=True)
by = page.function("by", Tenure, to=Session, fixed=True)
of = page.function("of", Frame, to=Session, fixed=True)
span = page.variable("span", Real, fixed=True)
patience = page.variable("patience", Real, fixed=True)

now = page.variable("now", Real)
up = page.relation("up", Voter)
abstains = page.function("abstains", Voter, to=Real)  # until then it gives no vote
begun = page.relation("begun", Session)
alive = page.relation("alive", Session)  # the voter has it
heard = page.function("heard", Session, to=Real)  # when the voter handled its latest frame
lease = page.function("lease", Session, to=Real)  # until then the participant counts its votes
closed = page.relation("closed", Session)  # the participant has given it up [4.5, 4.8]
sent = page.relation("sent", Frame)
sent_at = page.function("sent_at", Frame, to=Real)
answered = page.relation("answered", Frame)
given = page.relation("given", Tenure)  # ever
owner = page.relation("owner", Tenure)  # the voter has it on record
granting = page.relation("granting", Tenure)  # the Grant is under way
has = page.relation("has", Tenure)  # the participant counts it while its lease lasts [8.3]
returning = page.relation("returning", Tenure)  # Yield or Release is under way


def voter(y: Tenure) -> Voter:
    return at(by(y))


def valid(p: Participant, k: Quorum) -> Formula:
    def counts(y: Tenure, v: Voter) -> Formula:
        return has(y) & (who(by(y)) == p) & (voter(y) == v) & (now < lease(by(y)))

    return every(Voter, lambda v: member(v, k) >> some(Tenure, lambda y: counts(y, v)))


@page.axiom
def two_quorums_meet(k: Quorum, m: Quorum) -> Formula:
    return some(Voter, lambda v: member(v, k) & member(v, m))


@page.axiom
def voters_are_as_patient_as_leases_last() -> Formula:
    return (span > 0) & (span <= patience)


@page.start
def no_vote_was_given(v: Voter, x: Session, y: Tenure, f: Frame) -> Formula:
    voters = up(v) & (abstains(v) <= now)
    sessions = ~begun(x) & ~alive(x) & (heard(x) <= now) & (lease(x) <= heard(x))
    votes = ~given(y) & ~owner(y) & ~granting(y) & ~has(y) & ~returning(y)
    return voters & sessions & votes & ~sent(f) & ~answered(f)


@page.action
def time_passes(d: Real) -> None:
    when(d > 0)
    become(now, now + d)


@page.action
def begin_session(x: Session) -> None:
    """The voter takes the opening frame [4.1]."""
    when(up(at(x)), ~begun(x))
    begun[x] = True
    alive[x] = True
    heard[x] = now
    lease[x] = now - 1


@page.action
def send_frame(f: Frame) -> None:
    when(~sent(f), begun(of(f)))
    sent[f] = True
    sent_at[f] = now


@page.action
def handle_frame(f: Frame) -> None:
    """The session is renewed, and the answer tells when the frame was sent [4.2, 4.3]."""
    when(sent(f), alive(of(f)))
    heard[of(f)] = now
    answered[f] = True


@page.action
def count_answer(f: Frame) -> None:
    when(answered(f))
    lease[of(f)] = later(lease(of(f)), sent_at(f) + span)


@page.action
def grant(y: Tenure) -> None:
    when(~given(y), up(voter(y)), alive(by(y)), abstains(voter(y)) <= now)
    when(none(Tenure, lambda z: owner(z) & (voter(z) == voter(y))))
    given[y] = True
    owner[y] = True
    granting[y] = True


@page.action
def receive_grant(y: Tenure) -> None:
    when(granting(y), ~closed(by(y)))
    granting[y] = False
    has[y] = True


@page.action
def give_back(y: Tenure) -> None:
    """Yield or Release; a Grant that it crosses is ignored, by its number [5.6, 5.7]."""
    when(has(y) | granting(y))
    has[y] = False
    granting[y] = False
    returning[y] = True


@page.action
def take_back(y: Tenure) -> None:
    when(returning(y), alive(by(y)))
    returning[y] = False
    owner[y] = False


@page.action
def close_session(x: Session) -> None:
    """All was given back: Bye, or the session is forgotten and a newer one follows [4.8, 4.5]."""
    when(begun(x), ~closed(x), none(Tenure, lambda y: (by(y) == x) & has(y)))
    closed[x] = True


def drop(x: Session) -> None:
    alive[x] = False
    owner[each] = lambda y: owner(y) & (by(y) != x)


@page.action
def receive_end(x: Session) -> None:
    when(closed(x), alive(x))
    drop(x)


@page.action
def expire(x: Session) -> None:
    """[4.4]."""
    when(alive(x), heard(x) + patience <= now)
    drop(x)


@page.action
def crash(v: Voter) -> None:
    when(up(v))
    up[v] = False
    alive[each] = lambda x: alive(x) & (at(x) != v)
    owner[each] = lambda y: owner(y) & (voter(y) != v)


@page.action
def restart(v: Voter) -> None:
    """[9]."""
    when(~up(v))
    up[v] = True
    abstains[v] = now + patience


def comes_or_is_there(y: Tenure) -> Formula:
    return has(y) | (granting(y) & ~closed(by(y)))


def may_be_counted(y: Tenure) -> Formula:
    """By what the voter knows."""
    return comes_or_is_there(y) & (now < heard(by(y)) + span)


@page.safety
def mutual_exclusion(p: Participant, q: Participant, k: Quorum, m: Quorum) -> Formula:
    return (valid(p, k) & valid(q, m)) >> (p == q)


@page.invariant
def answers_tell_of_the_past(f: Frame) -> Formula:
    told = sent(f) & (sent_at(f) <= heard(of(f)))
    return (sent(f) >> (sent_at(f) <= now)) & (answered(f) >> told)


@page.invariant
def a_lease_follows_what_was_heard(x: Session) -> Formula:
    return (heard(x) <= now) & (lease(x) <= heard(x) + span)


@page.invariant
def a_session_has_a_voter(x: Session) -> Formula:
    return alive(x) >> (up(at(x)) & begun(x))


@page.invariant
def votes_belong_to_sessions(y: Tenure) -> Formula:
    known = owner(y) | has(y) | granting(y) | returning(y)
    return (owner(y) >> alive(by(y))) & (known >> (given(y) & begun(by(y))))


@page.invariant
def an_owner_came_after_abstention(y: Tenure) -> Formula:
    return owner(y) >> (abstains(voter(y)) <= now)


@page.invariant
def one_owner(y: Tenure, z: Tenure) -> Formula:
    return (owner(y) & owner(z) & (voter(y) == voter(z))) >> (y == z)


@page.invariant
def a_vote_is_on_record_while_its_session_lives(y: Tenure) -> Formula:
    return (alive(by(y)) & comes_or_is_there(y)) >> owner(y)


@page.invariant
def a_vote_given_back_is_not_counted(y: Tenure) -> Formula:
    return (returning(y) >> (~has(y) & ~granting(y))) & (closed(by(y)) >> ~has(y))


@page.invariant
def lease_lemma(y: Tenure) -> Formula:
    """[11.2] A vote that may be counted is on record, or its voter is down or abstains for longer."""
    outlived = heard(by(y)) + span <= abstains(voter(y))
    return may_be_counted(y) >> (owner(y) | ~up(voter(y)) | outlived)


@page.invariant
def one_is_counted(y: Tenure, z: Tenure) -> Formula:
    both = may_be_counted(y) & may_be_counted(z)
    return (both & (voter(y) == voter(z))) >> (y == z)


from_arrival = page.flaw("lease-from-arrival")


@from_arrival.instead_of(count_answer)
def count_answer_from_its_arrival(f: Frame) -> None:
    when(answered(f))
    lease[of(f)] = now + span


at_once = page.flaw("votes-at-once-after-a-start")


@at_once.instead_of(grant)
def grant_without_abstaining(y: Tenure) -> None:
    when(~given(y), up(voter(y)), alive(by(y)))
    when(none(Tenure, lambda z: owner(z) & (voter(z) == voter(y))))
    given[y] = True
    owner[y] = True
    granting[y] = True


kept = page.flaw("keeps-what-it-gives-back")


@kept.instead_of(give_back)
def give_back_and_keep(y: Tenure) -> None:
    when(has(y) | granting(y))
    has[y] = True
    granting[y] = False
    returning[y] = True
