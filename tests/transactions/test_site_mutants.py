"""Each rule of two-phase commit, broken in one line: a crash, a storm or a script must notice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from coterie.errors import MisuseError
from coterie.transactions.catalogue import scheme
from coterie.transactions.schemes.scheduler import Committed
from coterie.transactions.site import chunks
from coterie.transactions.site.coordinator import Coordinator
from coterie.transactions.site.journal import Journal
from coterie.transactions.site.messages import Vote
from coterie.transactions.site.resource import Resource
from coterie.transactions.site.site import SILENCE
from tests.transactions.broken_sites import Kinds, broken_sites
from tests.transactions.site_storms import judge as judge_storm
from tests.transactions.site_storms import site_storm
from tests.transactions.site_world import World, key_at, world
from tests.transactions.test_site_scans import lossy_scan
from tests.transactions.test_two_phase_commit import reader_left
from tests.transactions.test_two_phase_commit_crashes import SHAPES, crashing_runs, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

NOTICED = (AssertionError, KeyError, MisuseError)  # by a test, or by the site itself
A, B, C = key_at(1, 3), key_at(2, 3), key_at(3, 3)


@dataclass(frozen=True)
class Mutant:
    """A line of a part of sites, broken."""

    part: type[msgspec.Struct]
    old: str
    new: str
    noticed: Callable[[Kinds], None]  # must raise


def aborts(kinds: Kinds) -> None:
    """Abort what another site decides about: it commits, so it must not count as aborted."""
    sites = world(sites=3, kind=kinds.site)
    writer = sites.write(1, {B: b"1"}).name
    sites.call(1, "commit", writer)
    aborted = sites.call(1, "abort", writer)
    sites.settle()
    assert aborted == (sites.value(3, B) is None)


def scans(kinds: Kinds) -> None:
    """Lose every part of a scan once, and every request for one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_BYTES", 2 * (chunks.FOUND_BYTES + 10))
        lossy_scan(kinds.site)


def crashes(kinds: Kinds) -> None:
    """Crash after every action of every shape of transaction."""
    for name, variant in (("two-phase-locking", "detection"), ("timestamp-ordering", None)):
        for shape in SHAPES.values():
            for soon in (True, False):
                for point, sites, transaction in crashing_runs(
                    name, variant, shape, soon, kinds.site
                ):
                    judge(point, sites, transaction, shape)


def storms(kinds: Kinds) -> None:
    """Run storms of locking and of optimistic sites."""
    for name in ("two-phase-locking", "optimistic"):
        for seed in range(40):
            build = scheme(name).variant().build
            judge_storm(site_storm(build, 3, seed, kind=kinds.busy_site))


def restarts(kinds: Kinds) -> None:
    """Begin transactions before and after crashes."""
    sites = World(scheme("two-phase-locking").variant().build, 2, kinds.site)
    stamps = []
    for _ in range(3):
        stamps += [sites.call(1, "begin").stamp for _ in range(3)]
        sites.crash(1)
        sites.start(1)
    assert stamps == sorted(set(stamps))


def duplicates(kinds: Kinds) -> None:
    """Deliver every message twice."""
    sites = World(scheme("two-phase-locking").variant().build, 3, kinds.site)
    attempt = sites.call(1, "begin")
    steps: list[tuple[Any, ...]] = [("write", key, b"1") for key in (A, B, C)]
    for verb, *arguments in (*steps, ("commit",)):
        sites.call(1, verb, attempt.name, *arguments)
        while any(sites.mail.values()):
            for link in sorted(sites.mail):
                if sites.mail[link]:
                    sites.mail[link].insert(0, sites.mail[link][0])
                    sites.deliver(*link)
                    sites.deliver(*link)
    sites.settle()
    assert sites.idle()
    assert isinstance(sites.answer(attempt.name), Committed)


def readers_left(kinds: Kinds) -> None:
    """Ask a reader that has left about a transaction that has committed."""
    for again in (False, True):
        sites, _ = reader_left(again, kinds.site)
        sites.start(1)
        sites.settle()
        assert sites.value(3, A) == sites.value(3, B) == b"1"


def late_prepare(kinds: Kinds) -> None:
    """Let a site lose what it was asked, and part of it come again, before it votes."""
    sites = World(scheme("two-phase-locking").variant().build, 3, kinds.site)
    attempt = sites.call(1, "begin")
    sites.call(1, "write", attempt.name, B, b"1")
    again = list(sites.mail[1, 2])
    sites.run()
    for key in (key_at(2, 3, 1), C):
        sites.call(1, "write", attempt.name, key, b"1")
        sites.run()
    sites.crash(2)
    sites.start(2)
    sites.mail[1, 2] = again
    sites.run()
    sites.call(1, "commit", attempt.name)
    sites.run()
    sites.settle()
    votes = [sender for sender, _, message in sites.sent if isinstance(message, Vote)]
    assert 2 not in votes, "it votes for less than it was asked"
    assert sites.value(3, C) == sites.value(3, key_at(2, 3, 1))


def silent_coordinator(kinds: Kinds) -> None:
    """Leave a site in doubt for long."""
    sites = World(scheme("two-phase-locking").variant().build, 3, kinds.site)
    attempt = sites.write(1, {B: b"1", C: b"1"})
    sites.call(1, "commit", attempt.name)
    sites.deliver(1, 2)
    sites.crash(1)
    sites.crash(3)
    for _ in range(10):
        if SILENCE in sites.timers[2]:
            sites.ring(2, SILENCE)
            sites.run()
    assert sites.site(2).facts()["in doubt"] == [attempt.name]


MUTANTS = {
    "it votes before its writes are on disk": Mutant(Resource, "step.log(ready)", "pass", crashes),
    "the vote of the coordinator itself is not written with its decision": Mutant(
        Resource, "step.journal.overdue.append(ready)", "pass", crashes
    ),
    "the decision is told before it is on disk": Mutant(
        Coordinator, "            step.log(decided)\n", "", crashes
    ),
    "a commit of one phase is told before it is on disk": Mutant(
        Resource, "step.log(Wrote(name, number, prepared.writes))", "pass", crashes
    ),
    "a commit is acknowledged before it is on disk": Mutant(
        Resource, "        step.log_late(Settled(name, number))\n", "", crashes
    ),
    "a commit is acknowledged before what is overdue is written": Mutant(
        Journal,
        "        self._write_overdue(out)\n        self._pay(out)\n",
        "        self._pay(out)\n",
        crashes,
    ),
    "unknown means committed": Mutant(
        Coordinator,
        "step.journal.commit_number(name)",
        "step.journal.commit_number(name) or __import__('coterie.clocks').clocks.Stamp(time_of(name), step.me)",
        crashes,
    ),
    "one that has voted gives up": Mutant(
        Resource,
        "            if name in step.journal.ready:\n",
        "            if False:\n",
        silent_coordinator,
    ),
    "a decision is carried out twice": Mutant(
        Resource,
        "        if is_news:\n            self._settle_doubt",
        "        if True:\n            self._settle_doubt",
        duplicates,
    ),
    "an unknown commit is not acknowledged": Mutant(
        Resource,
        "        if number is not None:\n            # Also",
        "        if False:\n            # Also",
        crashes,
    ),
    "one acknowledgement is enough": Mutant(
        Coordinator, "site for site in decided.sites if site != sender", "", crashes
    ),
    "the clock begins again after a crash": Mutant(
        Journal, "        self.clock = self.reserved = past.time\n", "", restarts
    ),
    "the clock is not on disk": Mutant(
        Journal, "            self.log(Reserved(self.reserved), out)\n", "", restarts
    ),
    "who knows nothing says that it was aborted": Mutant(
        Resource,
        "        else:\n            step.out.send(sender, Pending(step.clock, name))\n\n",
        "        else:\n            step.out.send(sender, Decide(step.clock, name))\n\n",
        readers_left,
    ),
    "one that has ended here may begin once more": Mutant(
        Resource, "opening is None or name in self.ended or", "opening is None or", readers_left
    ),
    "a site votes though it has forgotten requests": Mutant(
        Resource,
        " not part.is_meant(message.life) or message.count != part.count + len(message.writes):",
        " False:",
        late_prepare,
    ),
    "what another site decides about is aborted": Mutant(
        Coordinator, "if not course.is_decided_by(step.me):", "if False:", aborts
    ),
    "a part of a scan counts as all of it": Mutant(
        Coordinator, "if message.more:", "if message.more and False:", scans
    ),
    "who misses a part of a scan asks for the scan": Mutant(
        Coordinator, "visit.count, visit.request", "visit.count, course.request", scans
    ),
    "a part of a scan that is sent again says that it is the last": Mutant(
        Resource, "part.reply, sender, step, more=more)", "part.reply, sender, step)", scans
    ),
    "one vote is enough": Mutant(
        Coordinator,
        "        if not course.awaited:\n            self._commit",
        "        if True:\n            self._commit",
        crashes,
    ),
    "the smallest number is taken": Mutant(
        Coordinator, "max(course.number, vote.number)", "min(course.number, vote.number)", storms
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    kinds = broken_sites(mutant.part, mutant.old, mutant.new)
    with pytest.raises(NOTICED):
        mutant.noticed(kinds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "notice",
    [crashes, storms, restarts, duplicates, readers_left, late_prepare, silent_coordinator],
)
def test_what_notices_them_finds_nothing_wrong_with_the_rules_as_they_are(
    notice: Callable[[Kinds], None],
) -> None:
    notice(Kinds())


def test_optimistic_readers_that_leave_early_let_a_write_skew_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2.6 k and 2.8 f: this is why they may not."""
    sites = world("optimistic", sites=3)
    monkeypatch.setattr(type(sites.site(1).scheduler), "lets_readers_go", True)
    first, second = sites.call(1, "begin"), sites.call(1, "begin")
    for attempt, read, write in ((first, B, C), (second, C, B)):
        sites.call(1, "read", attempt.name, read)
        sites.run()
        sites.call(1, "write", attempt.name, write, b"off")
        sites.run()
    sites.call(1, "commit", first.name)
    late = sites.mail[1, 3].pop()
    sites.deliver(1, 2)
    sites.call(1, "commit", second.name)
    sites.mail[1, 3].append(late)
    sites.run()
    assert isinstance(sites.answer(first.name), Committed)
    assert isinstance(sites.answer(second.name), Committed)
