"""The link notices bugs in the real handlers, and names the clause or shows the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.election.bully import Bully
from coterie.algorithms.election.ring import Ring
from coterie.algorithms.mutex.permission.centralized.coordinator import Centralized
from coterie.algorithms.mutex.permission.lamport import Lamport
from coterie.algorithms.mutex.permission.ricart_agrawala.denied import Denying
from coterie.algorithms.mutex.permission.ricart_agrawala.plain import RicartAgrawala
from coterie.algorithms.mutex.permission.ricart_agrawala.roucairol_carvalho import RoucairolCarvalho
from coterie.algorithms.mutex.quorum.decentralized.retry import Decentralized
from coterie.algorithms.mutex.quorum.fault_tolerant.process import FaultTolerant
from coterie.algorithms.mutex.quorum.leased.ballot import Ballot
from coterie.algorithms.mutex.quorum.leased.participant import Participant
from coterie.algorithms.mutex.quorum.leased.sessions import Downlink, Sessions, Uplink
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa
from coterie.algorithms.mutex.token.naimi_trehel import NaimiTrehel
from coterie.algorithms.mutex.token.raymond import Raymond
from coterie.algorithms.mutex.token.suzuki_kasami import SuzukiKasami
from coterie.algorithms.mutex.token.token_ring.rotating import TokenRing
from coterie.catalogue import load
from coterie.lab.explore import check
from coterie.lab.prove import library
from coterie.lab.prove.link import Trial, hold
from coterie.lab.prove.verdict import hold_all
from coterie.transactions.site.coordinator import Coordinator
from coterie.transactions.site.journal import Journal
from coterie.transactions.site.resource import Resource
from tests.harness import broken_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Process

TWO, TWICE, THREE = Trial(2, 1), Trial(2, 2), Trial(3, 1)
CRASHES = Trial(3, 1, crashes=2)
THREE_AT_RANDOM, FOUR_AT_RANDOM = Trial(3, 3, runs=20), Trial(4, 5, runs=60)

# The algorithm, a line of it, what it becomes, where that is noticed, and a piece of what is said.
BUGS: dict[str, tuple[str, type[Any], str, str, Trial, str]] = {
    "serves while one is inside": (
        "centralized",
        Centralized,
        "if self.holder is None and self.queue:",
        "if self.queue:",
        TWO,
        "one that was let in is the holder",
    ),
    "forgets that it has let one in": (
        "centralized",
        Centralized,
        "            self.holder = self.queue.pop(0)\n            out.send(self.holder, Grant())",
        "            out.send(self.queue.pop(0), Grant())",
        TWO,
        "one that was let in is the holder",
    ),
    "replies though its own request is older": (
        "ricart-agrawala",
        RicartAgrawala,
        "self.stamp < stamp",
        "self.stamp > stamp",
        TWO,
        "only the older defers",
    ),
    "forgets the time of a request": (
        "ricart-agrawala",
        RicartAgrawala,
        "self.highest = stamp.time",
        "pass",
        TWO,
        "a permission counts",
    ),
    "defers by time alone": (
        "ricart-agrawala",
        RicartAgrawala,
        "self.stamp < stamp:",
        "self.stamp.time <= stamp.time:",
        TWO,
        "only the older defers",
    ),
    "keeps those that it has answered": (
        "ricart-agrawala",
        RicartAgrawala,
        "        self.deferred.clear()\n",
        "",
        TWO,
        "only the older defers",
    ),
    "replies to one alone on leaving": (
        "ricart-agrawala",
        RicartAgrawala,
        "out.broadcast(self.deferred, Reply())",
        "out.broadcast(sorted(self.deferred)[:1], Reply())",
        THREE,
        "an awaited reply is under way",
    ),
    "a queue that forgets no request": (
        "lamport",
        Lamport,
        "        self.queue.remove(request)\n",
        "",
        TWO,
        "a step that the page does not have",
    ),
    "any message counts as an answer": (
        "lamport",
        Lamport,
        "if self.stamp is not None and self.stamp.time <= time:",
        "if self.stamp is not None:",
        TWICE,
        "",
    ),
    "locks itself for the youngest": (
        "maekawa",
        Maekawa,
        "self.queue.pop(0)",
        "self.queue.pop()",
        TWICE,
        "a step that the page does not have",
    ),
    "keeps the lock that it gives back": (
        "maekawa",
        Maekawa,
        "            self.locked.remove(arbiter)\n",
        "",
        TWO,
        "a lock has one place",
    ),
    "does not queue what was given back": (
        "maekawa",
        Maekawa,
        "                self._require_owner(stamp)\n                insort(self.queue, stamp)\n",
        "                self._require_owner(stamp)\n",
        TWO,
        "a request is not lost",
    ),
    "asks its owner once in its life": (
        "maekawa",
        Maekawa,
        "        self.inquired = False\n",
        "",
        TWO,
        "an inquiry is not lost",
    ),
    "forgets an early inquiry": (
        "majority",
        Maekawa,
        "self.inquiries.add(sender)",
        "self.inquiries |= {sender} & self.locked",
        FOUR_AT_RANDOM,
        "an inquiry is not lost",
    ),
    "sends the token and keeps it": (
        "suzuki-kasami",
        SuzukiKasami,
        "        self.token = None\n",
        "",
        TWO,
        "there are 2 tokens",
    ),
    "does not note that it is served": (
        "suzuki-kasami",
        SuzukiKasami,
        "        served[self.me - 1] = self.requested[self.me - 1]\n",
        "",
        TWO,
        "the token counts",
    ),
    "drops the queue of the token": (  # no bug, but another algorithm: `check` calls it verified
        "suzuki-kasami",
        SuzukiKasami,
        "queue[1:]",
        "()",
        THREE,
        "a step that the page does not have",
    ),
    "takes an older number for the newest": (
        "suzuki-kasami",
        SuzukiKasami,
        "max(self.requested[sender - 1], number)",
        "number",
        THREE_AT_RANDOM,
        "a request is not lost",
    ),
    "stays the root": (
        "naimi-trehel",
        NaimiTrehel,
        "                self.father = origin\n",
        "",
        TWO,
        "no handler raises",
    ),
    "sends the token and has it": (
        "naimi-trehel",
        NaimiTrehel,
        "        self.token = False\n",
        "",
        TWO,
        "it is here or under way",
    ),
    "asks once for each that waits": (
        "raymond",
        Raymond,
        "and self.queue and not self.asked",
        "and self.queue",
        THREE,
        "",
    ),
    "does not ask for those left behind": (
        "raymond",
        Raymond,
        "        self._assign_if_free(out)\n        self._ask_if_needed(out)\n\n    def awaits",
        "        self._assign_if_free(out)\n\n    def awaits",
        THREE,
        "",
    ),
    "replies inside by permissions that it keeps": (
        "roucairol-carvalho",
        RoucairolCarvalho,
        "(self.stamp < other or not self._lacking())",
        "self.stamp < other",
        TWICE,
        "",
    ),
    "keeps a permission that it has replied to": (
        "roucairol-carvalho",
        RoucairolCarvalho,
        "            self.permissions.remove(sender)\n",
        "",
        TWICE,
        "",
    ),
    "does not ask again for what it has let go": (
        "roucairol-carvalho",
        RoucairolCarvalho,
        "                out.send(sender, Request(self.stamp))\n",
        "                pass\n",
        THREE_AT_RANDOM,
        "",
    ),
    "keeps the permissions of those that it made wait": (
        "roucairol-carvalho",
        RoucairolCarvalho,
        "        self.permissions -= self.deferred\n",
        "",
        TWO,
        "a permission has one place",
    ),
    "gives its vote twice": (
        "decentralized",
        Decentralized,
        "self.given is None and not self.abstains",
        "not self.abstains",
        TWO,
        "",
    ),
    "enters with one vote less": (
        "decentralized",
        Decentralized,
        "if len(self.votes) == self.needed:",
        "if len(self.votes) == self.needed - 1:",
        TWO,
        "",
    ),
    "keeps the votes that it gives back": (
        "decentralized",
        Decentralized,
        "        self.votes.clear()\n",
        "",
        TWO,
        "",
    ),
    "leads when one higher process is down": (
        "bully",
        Bully,
        "        if self.watched:\n            return\n        if self.leader",
        "        if self.leader",
        CRASHES,
        "",
    ),
    "asks only the next one": (
        "bully",
        Bully,
        "higher = range(self.me + 1, self.size + 1)",
        "higher = range(self.me + 1, min(self.me + 1, self.size) + 1)",
        CRASHES,
        "",
    ),
    "passes the token on and keeps it": (
        "token-ring",
        TokenRing,
        "        self.token = False\n",
        "",
        TWO,
        "",
    ),
}
# `check` with up to three processes that enter once each calls these verified.
PASSED_BY_CHECK = (
    "keeps those that it has answered",
    "any message counts as an answer",
    "asks its owner once in its life",
    "forgets an early inquiry",
    "drops the queue of the token",
    "takes an older number for the newest",
    "replies inside by permissions that it keeps",
    "keeps a permission that it has replied to",
    "does not ask again for what it has let go",
    "keeps the permissions of those that it made wait",
)
# What a page leaves open, and `check` finds: that the token moves on at all.
NOT_NOTICED = {"does not ask for those left behind"}


def broken(
    algorithm: str, kind: type[Any], old: str, new: str, size: int
) -> Sequence[Process[Any]]:
    """Build processes of a class with one line changed, and the state of the right ones."""
    found = library.find(algorithm)
    assert found.link is not None
    entry = load(found.algorithm)
    variant = None if algorithm in library.SAME_CODE else found.link.variants[0]
    wrong = broken_class(kind, old, new)
    made = []
    for process in entry.build(entry.setup(size, variant)):
        fields = {name: getattr(process, name) for name in process.__struct_fields__}
        made.append(wrong(**fields))
    return made


@pytest.mark.parametrize("name", [name for name in BUGS if name not in NOT_NOTICED])
def test_a_bug_in_the_handlers_is_noticed(name: str) -> None:
    algorithm, kind, old, new, trial, words = BUGS[name]
    entry = library.find(algorithm)
    assert entry.link is not None
    processes = broken(algorithm, kind, old, new, trial.size)
    held = hold(entry.page, entry.link, processes, trial)
    assert held.trouble
    assert words in held.trouble


@pytest.mark.parametrize("name", sorted(NOT_NOTICED))
def test_a_step_left_out_is_no_step_that_the_page_lacks(name: str) -> None:
    """Pages say what may happen: that it does happen is for `check`, and for proofs of waits."""
    algorithm, kind, old, new, trial, _ = BUGS[name]
    entry = library.find(algorithm)
    assert entry.link is not None
    held = hold(entry.page, entry.link, broken(algorithm, kind, old, new, trial.size), trial)
    assert not held.trouble


# Sites of two-phase commit hold their parts by type, so that methods of these are replaced.
SITES: dict[str, tuple[type[Any], str, str, str]] = {
    "commits without the last vote": (
        Coordinator,
        "on_vote",
        "        course.awaited.remove(sender)\n        course.silence = 0\n        course.number",
        "        course.awaited.clear()\n        course.silence = 0\n        course.number",
    ),
    "tells the others to commit what one refused": (
        Coordinator,
        "_refused",
        "step.out.broadcast(others, Decide(step.clock, name))",
        "step.out.broadcast(others, Decide(step.clock, name, course.attempt.stamp))",
    ),
    "votes and forgets it": (
        Resource,
        "_vote",
        "            step.journal.ready[name] = ready\n",
        "",
    ),
    "commits what it was told to abort": (
        Resource,
        "_settle_doubt",
        "        if number is None:\n            step.scheduler.abort(name, answers)\n",
        "        if number is not None:\n            step.scheduler.abort(name, answers)\n",
    ),
    "tells its users and not its journal": (
        Coordinator,
        "_commit",
        "            step.journal.decided[name] = decided\n",
        "",
    ),
}


@pytest.mark.parametrize("name", SITES)
def test_a_bug_in_two_phase_commit_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, old, new = SITES[name]
    monkeypatch.setattr(kind, method, getattr(broken_class(kind, old, new), method))
    entry = library.find("two-phase-commit")
    assert any(held.trouble for held in hold_all(entry, [Trial(2, 1)]))


EACH_CRASHES = Trial(2, 1, restarts=1)
THREE_CRASH_AT_RANDOM = Trial(3, 1, runs=20, restarts=1)

# The same for what only a crash brings to light: part, method, line, what it becomes, scheme, where.
CRASHING_SITES: dict[str, tuple[type[Any], str, str, str, str, Trial]] = {
    "votes before it saves": (
        Resource,
        "_vote",
        "                step.log(ready)\n",
        "                pass\n",
        "two-phase-locking",
        EACH_CRASHES,
    ),
    "commits before it saves": (
        Coordinator,
        "_commit",
        "            step.log(decided)\n",
        "",
        "two-phase-locking",
        EACH_CRASHES,
    ),
    "forgets its decisions in a crash": (
        Journal,
        "recover",
        "self.ready, self.decided, self.outcomes = past.ready, past.decided, past.outcomes",
        "self.ready, self.outcomes = past.ready, past.outcomes",
        "two-phase-locking",
        EACH_CRASHES,
    ),
    "forgets its votes in a crash": (
        Journal,
        "recover",
        "self.ready, self.decided, self.outcomes = past.ready, past.decided, past.outcomes",
        "self.decided, self.outcomes = past.decided, past.outcomes",
        "two-phase-locking",
        EACH_CRASHES,
    ),
    "presumes an abort when it is in doubt": (
        Resource,
        "_ask_around",
        "        if part.silence > 2:  # it was",
        "        self.on_decide(coordinator, name, None, step)\n        if part.silence > 2:  # it was",
        "two-phase-locking",
        EACH_CRASHES,
    ),
    "votes for what another life has begun": (
        Resource,
        "on_prepare",
        "elif not part.is_meant(message.life) or message.count",
        "elif message.count",
        "optimistic",
        THREE_CRASH_AT_RANDOM,
    ),
    "says that what it does not know is aborted": (
        Resource,
        "on_inquire",
        "elif self.ended.get(name):",
        "elif name not in step.journal.ready:",
        "timestamp-ordering",
        THREE_CRASH_AT_RANDOM,
    ),
}


@pytest.mark.parametrize("name", CRASHING_SITES)
def test_a_bug_that_a_crash_brings_to_light_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, method, old, new, variant, trial = CRASHING_SITES[name]
    monkeypatch.setattr(kind, method, getattr(broken_class(kind, old, new), method))
    entry = library.find("two-phase-commit")
    assert entry.link is not None
    assert entry.link.build is not None
    assert hold(entry.page, entry.link, entry.link.build(trial, variant), trial).trouble


TWO_VOTERS, VOTERS_CRASH = Trial(2, 1), Trial(3, 2, runs=10, restarts=1)

# Voters and participants of the leased lock: part, method, line, what it becomes, where, what is said.
LEASED: dict[str, tuple[type[Any], str, str, str, Trial, str]] = {
    "leaves the floor": (
        Ballot,
        "take_back",
        "self.floor = max(self.floor, min(used, tenure.high))",
        "pass",
        TWO_VOTERS,
        "what is over is below the floor",
    ),
    "begins below the floor": (
        Ballot,
        "elect",
        "low = max(claim.stamp, self.floor + 1)",
        "low = claim.stamp",
        TWO_VOTERS,
        "earlier votes are over",
    ),
    "gives the vote twice": (
        Ballot,
        "next",
        "        if not self.owners:\n            return head\n",
        "        return head\n",
        TWO_VOTERS,
        "a step that the page does not have",
    ),
    "gives back without the token": (
        Participant,
        "_withdraw_votes",
        "release = Release(lock, bid.number, bid.token)",
        "release = Release(lock, bid.number, 0)",
        TWO_VOTERS,
        "what is given back says what was used",
    ),
    "hands out before it saves": (
        Voter,
        "_cover",
        "            self.bound = tenure.high + self.settings.reserve\n            self._save(out)\n",
        "            self.bound = tenure.high + self.settings.reserve\n",
        VOTERS_CRASH,
        "the disk covers what was handed out",
    ),
    "hands out above what it saved": (
        Voter,
        "_cover",
        "if tenure.high > self.bound:",
        "if tenure.low > self.bound:",
        VOTERS_CRASH,
        "the disk covers what was handed out",
    ),
    "raises above what it saved": (
        Voter,
        "_raise",
        "self.settings.interval - 1)\n        self._cover(tenure, out)\n",
        "self.settings.interval - 1)\n",
        VOTERS_CRASH,
        "the disk covers what was handed out",
    ),
    "counts nothing of an expired vote as used": (
        Voter,
        "_drop",
        "self._take_back(ballot, tenure, tenure.high)",
        "self._take_back(ballot, tenure, 0)",
        VOTERS_CRASH,
        "a step that the page does not have",
    ),
    "begins at nought after a crash": (
        Voter,
        "start",
        "self.bound = self.floor = self.clock = saved.bound",
        "self.bound = self.clock = saved.bound",
        VOTERS_CRASH,
        "what is over is below the floor",
    ),
    "counts a vote for an earlier request": (
        Participant,
        "_handle",
        "bid is None or body.number != bid.number",
        "bid is None",
        VOTERS_CRASH,
        "a hold has a quorum",
    ),
    "takes a frame out of turn": (
        Downlink,
        "takes",
        "        if seq != self.delivered + 1:\n            return False\n",
        "",
        VOTERS_CRASH,
        "",
    ),
}


@pytest.mark.parametrize("name", LEASED)
def test_a_bug_in_the_leased_lock_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, old, new, trial, words = LEASED[name]
    monkeypatch.setattr(kind, method, getattr(broken_class(kind, old, new), method))
    entry = library.find("leased-tokens")
    assert entry.link is not None
    assert entry.link.build is not None
    held = hold(entry.page, entry.link, entry.link.build(trial, "all"), trial)
    assert held.trouble
    assert words in held.trouble


TWO_ALONE, ONE_ALONE = Trial(2, 3, runs=12, restarts=2), Trial(3, 3, runs=12, restarts=2)
# In the leased lock with clocks: where, what becomes of it, and a piece of what is said.
CLOCKED: dict[str, tuple[type[Any], str, str, str, Trial, str]] = {
    "counts a lease from the arrival of an answer": (
        Uplink,
        "accept",
        "min(frame.echo, now) + lease",
        "now + lease",
        TWO_ALONE,
        "a step that the page does not have",
    ),
    "is as patient as a lease, and no more": (
        Settings,
        "expiry_of",
        "return lease * (1 + self.rate_error) / (1 - self.rate_error) + self.margin",
        "return lease",
        TWO_ALONE,
        "a step that the page does not have",
    ),
    "renews a session once in its life": (
        Downlink,
        "accept",
        "        if expires > self.expires:\n",
        "        if self.expires < 0:\n",
        TWO_ALONE,
        "a step that the page does not have",
    ),
    "votes at once after a start": (
        Voter,
        "start",
        "self.abstains_until = out.now + self.abstention",
        "self.abstains_until = out.now",
        TWO_ALONE,
        "lease lemma",
    ),
    "votes while it abstains": (
        Voter,
        "_schedule",
        "            if not self.abstains():\n",
        "            if True:\n",
        TWO_ALONE,
        "an owner came after abstention",
    ),
    "gives the vote twice": (
        Ballot,
        "next",
        "        if not self.owners:\n            return head\n",
        "        return head\n",
        TWO_ALONE,
        "one owner",
    ),
    "lets one join that does not share": (
        Ballot,
        "next",
        "if not (head.shared and self.owners[0].claim.shared):",
        "if not self.owners[0].claim.shared:",
        ONE_ALONE,
        "one owner",
    ),
    "lets one that shares join any": (
        Ballot,
        "next",
        "if not (head.shared and self.owners[0].claim.shared):",
        "if not head.shared:",
        ONE_ALONE,
        "one owner",
    ),
    "counts a vote that it gives back": (
        Participant,
        "_take_inquiry",
        "            bid.drop(voter)\n            self.sessions.post(voter, Yield",
        "            self.sessions.post(voter, Yield",
        ONE_ALONE,
        "",
    ),
    "takes a reply twice": (
        Sessions,
        "_accept",
        "frame.seq == uplink.delivered + 1",
        "True",
        TWO_ALONE,
        "that is not its own",
    ),
    "says that it holds what has lapsed": (
        Participant,
        "remaining",
        "max(0.0, self._valid_until(bid) - now)",
        "float(bid.state is State.HELD)",
        TWO_ALONE,
        "says that its hold is valid",
    ),
}


@pytest.mark.parametrize("name", CLOCKED)
def test_a_bug_in_leases_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, old, new, trial, words = CLOCKED[name]
    monkeypatch.setattr(kind, method, getattr(broken_class(kind, old, new), method))
    entry = library.find("leased")
    assert entry.link is not None
    assert entry.link.build is not None
    held = hold(entry.page, entry.link, entry.link.build(trial, "all"), trial)
    assert held.trouble
    assert words in held.trouble


ONE_ARBITER, OF_FIVE = Trial(3, 3, runs=20, crashes=1), Trial(5, 3, runs=10, crashes=3)
# In the algorithm of 1996: what becomes of which line, and a piece of what is said.
TIMED: dict[str, tuple[str, str, str, Trial, str]] = {
    "says nothing inside": (
        "_hold_if_inside",
        "            self.holding = True\n            out.broadcast(self._alive(), Hold())\n",
        "            pass\n",
        ONE_ARBITER,
        "one that lost a member holds",
    ),
    "does not tell all that it is inside": (
        "_hold_if_inside",
        "out.broadcast(self._alive(), Hold())",
        "out.broadcast(sorted(self._alive())[1:], Hold())",
        ONE_ARBITER,
        "a hold reaches all",
    ),
    "relays nothing": (
        "_learn",
        "out.broadcast(self._alive() - {process}, news(process, version))",
        "pass",
        OF_FIVE,
        "news reaches all",
    ),
    "does not wait after news": (
        "_begin_quarantine",
        "        self.quarantined = True\n        out",
        "        out",
        OF_FIVE,
        "a step that the page does not have",
    ),
    "waits for half as long after news": (
        "_quarantine",
        "return self.settings.quarantine",
        "return self.settings.sigma + self.settings.lambda_",
        OF_FIVE,
        "a step that the page does not have",
    ),
    "enters while another has said Hold": (
        "_enter_if_permitted",
        "and not self.holders and",
        "and",
        ONE_ARBITER,
        "",
    ),
    "takes the slow for dead": (
        "_probe",
        'out.set_timer(f"{T_D}{peer}", self.settings.t_d)',
        'out.set_timer(f"{T_D}{peer}", self.settings.sigma)',
        OF_FIVE,
        "only the dead are taken for dead",
    ),
    "enters with the locks that it asked for first": (
        "_ask_quorum",
        "self.quorum = tuple(sorted(quorum))",
        "self.quorum = self.quorum or tuple(sorted(quorum))",
        OF_FIVE,
        "",
    ),
}


@pytest.mark.parametrize("name", TIMED)
def test_a_bug_in_the_algorithm_of_1996_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, old, new, trial, words = TIMED[name]
    wrong = broken_class(FaultTolerant, old, new)
    monkeypatch.setattr(FaultTolerant, method, getattr(wrong, method))
    entry = library.find("fault-tolerant")
    assert entry.link is not None
    assert entry.link.build is not None
    held = hold(entry.page, entry.link, entry.link.build(trial, "repaired"), trial)
    assert held.trouble
    assert words in held.trouble


SILENT = Trial(3, 3, runs=20, crashes=1)
DENIED = {
    "takes the slow for dead": (
        "acquire",
        "out.set_timer(SILENCE, self.patience)",
        "out.set_timer(SILENCE, self.patience / 4)",
        "those that are gone are down",
    ),
    "asks those that it does without": (
        "acquire",
        " - {self.me} - self.crashed",
        " - {self.me}",
        "a step that the page does not have",
    ),
    "replies where it should deny": (
        "_answer",
        "out.send(sender, Denied(stamp))",
        "out.send(sender, Reply())",
        "a permission counts",
    ),
}


@pytest.mark.parametrize("name", DENIED)
def test_a_bug_in_denials_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, old, new, words = DENIED[name]
    monkeypatch.setattr(Denying, method, getattr(broken_class(Denying, old, new), method))
    entry = library.find("denied")
    assert entry.link is not None
    assert entry.link.build is not None
    held = hold(entry.page, entry.link, entry.link.build(SILENT, "denied"), SILENT)
    assert held.trouble
    assert words in held.trouble


RING = {
    "passes over one that lives": (
        "_pass_on",
        "        out.send(to, message)\n",
        "        out.send(self._successor(to), message)\n",
        "behind a list are members and the dead",
    ),
    "follows the lowest": (
        "_announce",
        "highest = max(message.ring)",
        "highest = min(message.ring)",
        "no process that lives is higher than a leader",
    ),
}


@pytest.mark.parametrize("name", RING)
def test_a_bug_in_the_ring_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, old, new, words = RING[name]
    monkeypatch.setattr(Ring, method, getattr(broken_class(Ring, old, new), method))
    entry = library.find("ring")
    troubles = [held.trouble for held in hold_all(entry, [Trial(3, 1, crashes=1)])]
    assert words in troubles[0]


CHANGE = Trial(3, 1, runs=10, restarts=2)

# The same while voters are changed: where the link loses a clause, or a step.
CHANGES: dict[str, tuple[type[Any], str, str, str, Trial, str]] = {
    "votes while it abstains": (
        Voter,
        "_schedule",
        "            if not self.abstains():\n",
        "            if True:\n",
        CHANGE,
        "a step that the page does not have",
    ),
    "reports what it still serves": (
        Voter,
        "_has_finished",
        " and self._is_past(number)",
        "",
        CHANGE,
        "what is reported is counted no more",
    ),
    "reports while it abstains": (
        Voter,
        "_has_finished",
        "self.closed >= number and not self.abstains() and",
        "self.closed >= number and",
        Trial(3, 2, runs=20, restarts=1),
        "a step that the page does not have",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_bug_in_a_change_of_voters_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, old, new, trial, words = CHANGES[name]
    monkeypatch.setattr(kind, method, getattr(broken_class(kind, old, new), method))
    entry = library.find("leased-change")
    assert entry.link is not None
    assert entry.link.build is not None
    held = hold(entry.page, entry.link, entry.link.build(trial, "all"), trial)
    assert held.trouble
    assert words in held.trouble


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSED_BY_CHECK)
def test_a_bug_that_is_noticed_may_pass_a_search_of_small_systems(name: str) -> None:
    algorithm, kind, old, new, _, _ = BUGS[name]
    for size in (2, 3):
        assert check(broken(algorithm, kind, old, new, size)).verdict == "verified"
