"""The leased quorum lock: tokens tell who was overtaken, whatever clocks do (P2).

No time appears here: leases end, votes expire and voters crash at any moment. A tenure is a vote from its
grant on, with the interval of tokens that it allows. Numbers in brackets are those of the rules of
docs/protocol/leased-rules.md. One configuration, one lock, for one holder at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.prove import Int, Page, Thing, choose, each, every, later, none, some, when

if TYPE_CHECKING:
    from coterie.lab.prove.terms import Formula

PAGE = page = Page("leased-tokens", "for any number of voters and participants, and every coterie")


class Participant(Thing):
    """One that wants the lock."""


class Voter(Thing):
    """One that gives its vote to one participant at a time."""


class Quorum(Thing):
    """A set of voters."""


class Tenure(Thing):
    """Of a vote, from its grant on."""


class Hold(Thing):
    """Of the lock, from its entry on."""


member = page.relation("member", Voter, Quorum, fixed=True)
at = page.function("at", Tenure, to=Voter, fixed=True)
who = page.function("who", Tenure, to=Participant, fixed=True)
holder = page.function("holder", Hold, to=Participant, fixed=True)

up = page.relation("up", Voter)
floor = page.function("floor", Voter, to=Int)  # every token up to it may have been used
bound = page.function("bound", Voter, to=Int)  # on its disk: no token above it was handed out
given = page.relation("given", Tenure)  # ever
owner = page.relation("owner", Tenure)  # the voter has it on record
has = page.relation("has", Tenure)  # the participant has it, or its Grant is under way
low = page.function("low", Tenure, to=Int)
high = page.function("high", Tenure, to=Int)
repaired = page.relation("repaired", Tenure)  # for a hold that there is, with its token alone [8.4]
returning = page.relation("returning", Tenure)
used = page.function("used", Tenure, to=Int)  # as the message says that gives it back
before = page.relation("before", Tenure, Tenure)  # at the same voter
entered = page.relation("entered", Hold)
token = page.function("token", Hold, to=Int)
by = page.function("by", Hold, to=Quorum)
support = page.relation("support", Hold, Tenure)  # the votes that it entered with


@page.axiom
def two_quorums_meet(k: Quorum, m: Quorum) -> Formula:
    return some(Voter, lambda v: member(v, k) & member(v, m))


@page.start
def no_vote_was_given(v: Voter, y: Tenure, z: Tenure, h: Hold) -> Formula:
    voters = up(v) & (floor(v) <= bound(v))
    votes = ~given(y) & ~owner(y) & ~has(y) & ~returning(y) & ~before(y, z) & ~repaired(y)
    return voters & votes & ~entered(h) & ~support(h, y)


@page.action
def save(v: Voter, b: Int) -> None:
    when(bound(v) <= b)
    bound[v] = b


def free(y: Tenure) -> Formula:
    """Its voter has no owner, and the vote is a new one."""
    others = none(Tenure, lambda z: owner(z) & (at(z) == at(y)))
    return up(at(y)) & ~given(y) & others


def hand_out(y: Tenure, lowest: Int, highest: Int) -> None:
    given[y] = owner[y] = has[y] = True
    low[y] = lowest
    high[y] = highest
    before[each, y] = lambda z: given(z) & (at(z) == at(y)) & (z != y)


@page.action
def grant(y: Tenure, lowest: Int, highest: Int) -> None:
    """[6.5] The interval begins above the floor; what is on disk covers it before it leaves [7]."""
    when(free(y), floor(at(y)) < lowest, lowest <= highest, highest <= bound(at(y)))
    hand_out(y, lowest, highest)


@page.action
def repair(y: Tenure, t: Int) -> None:
    """[8.4] The one token may lie below the floor; no entry uses such a vote [I4]."""
    when(free(y), t <= bound(at(y)))
    hand_out(y, t, t)
    repaired[y] = True


@page.action
def lift(y: Tenure, highest: Int) -> None:
    """[6.4] The lower end stays [5.5]."""
    when(owner(y), ~repaired(y), high(y) <= highest, highest <= bound(at(y)))
    high[y] = highest


def fits(y: Tenure, h: Hold, t: Int) -> Formula:
    return has(y) & ~repaired(y) & (who(y) == holder(h)) & (low(y) <= t) & (t <= high(y))


@page.action
def enter(h: Hold, k: Quorum, t: Int) -> None:
    """[5.3] A token in the intervals of a quorum, above all that this participant has used."""

    def votes(v: Voter) -> Formula:
        return some(Tenure, lambda y: fits(y, h, t) & (at(y) == v))

    when(~entered(h), every(Voter, lambda v: member(v, k) >> votes(v)))
    when(every(Hold, lambda g: (entered(g) & (holder(g) == holder(h))) >> (token(g) < t)))
    entered[h] = True
    token[h] = t
    by[h] = k
    support[h, each] = lambda y: fits(y, h, t)


@page.action
def give_back(y: Tenure, u: Int) -> None:
    when(has(y), every(Hold, lambda h: support(h, y) >> (token(h) <= u)))
    has[y] = False
    returning[y] = True
    used[y] = u


@page.action
def take_back(y: Tenure) -> None:
    """[6.2, 6.3] The floor rises to what was used, but not above the interval."""
    when(returning(y), owner(y), up(at(y)))
    owner[y] = False
    returning[y] = False
    floor[at(y)] = later(floor(at(y)), choose(used(y) < high(y), used(y), high(y)))


@page.action
def expire(y: Tenure) -> None:
    """[6.6] The participant cannot be asked, so all of the interval counts as used."""
    when(owner(y), up(at(y)))
    owner[y] = False
    floor[at(y)] = later(floor(at(y)), high(y))


@page.action
def crash(v: Voter) -> None:
    when(up(v))
    up[v] = False
    owner[each] = lambda y: owner(y) & (at(y) != v)


@page.action
def restart(v: Voter) -> None:
    """[9]."""
    when(~up(v))
    up[v] = True
    floor[v] = bound(v)


@page.safety
def the_order_of_tokens_is_the_order_of_votes(h: Hold, g: Hold, y: Tenure, z: Tenure) -> Formula:
    overtaken = support(h, y) & support(g, z) & before(y, z) & (h != g)
    return overtaken >> (token(h) < token(g))


@page.safety
def tokens_are_unique(h: Hold, g: Hold) -> Formula:
    return (entered(h) & entered(g) & (token(h) == token(g))) >> (h == g)


@page.invariant
def votes_fit_their_hold(h: Hold, y: Tenure) -> Formula:
    mine = given(y) & ~repaired(y) & (who(y) == holder(h))
    return support(h, y) >> (entered(h) & mine & (low(y) <= token(h)) & (token(h) <= high(y)))


@page.invariant
def a_hold_has_a_quorum(h: Hold, v: Voter) -> Formula:
    votes = some(Tenure, lambda y: support(h, y) & (at(y) == v))
    return (entered(h) & member(v, by(h))) >> votes


@page.invariant
def the_disk_covers_what_was_handed_out(v: Voter, y: Tenure) -> Formula:
    return (floor(v) <= bound(v)) & (given(y) >> (high(y) <= bound(at(y))))


@page.invariant
def votes_were_given(y: Tenure) -> Formula:
    return (owner(y) >> (given(y) & up(at(y)))) & ((has(y) | repaired(y)) >> given(y))


@page.invariant
def what_is_over_is_below_the_floor(y: Tenure, h: Hold) -> Formula:
    """[I3]."""
    over = given(y) & ~owner(y) & up(at(y))
    may_be_used = has(y) >> (high(y) <= floor(at(y)))
    was_used = support(h, y) >> (token(h) <= floor(at(y)))
    return over >> (may_be_used & was_used)


@page.invariant
def what_is_given_back_says_what_was_used(y: Tenure, h: Hold) -> Formula:
    return returning(y) >> (~has(y) & given(y) & (support(h, y) >> (token(h) <= used(y))))


@page.invariant
def earlier_votes_are_over(y: Tenure, z: Tenure, h: Hold) -> Formula:
    may_be_used = has(y) >> (high(y) < low(z))
    was_used = support(h, y) >> (token(h) < low(z))
    over = given(y) & given(z) & (y != z) & (at(y) == at(z)) & ~owner(y)
    return before(y, z) >> (over & (repaired(z) | (may_be_used & was_used)))


@page.invariant
def one_of_two_is_earlier(y: Tenure, z: Tenure) -> Formula:
    return (given(y) & given(z) & (at(y) == at(z)) & (y != z)) >> (before(y, z) | before(z, y))


unsaved = page.flaw("sends-before-it-saves")


@unsaved.instead_of(grant)
def grant_unsaved(y: Tenure, lowest: Int, highest: Int) -> None:
    when(free(y), floor(at(y)) < lowest, lowest <= highest)
    hand_out(y, lowest, highest)


low_floor = page.flaw("leaves-the-floor")


@low_floor.instead_of(take_back)
def take_back_and_leave_the_floor(y: Tenure) -> None:
    when(returning(y), owner(y), up(at(y)))
    owner[y] = False
    returning[y] = False


forgetful = page.flaw("forgets-the-floor")


@forgetful.instead_of(restart)
def restart_at_nought(v: Voter) -> None:
    when(~up(v))
    up[v] = True
    floor[v] = 0


by_repair = page.flaw("enters-by-a-repair")


@by_repair.instead_of(repair)
def repair_as_any_vote(y: Tenure, t: Int) -> None:
    when(free(y), t <= bound(at(y)))
    hand_out(y, t, t)
