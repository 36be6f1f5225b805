"""Acknowledgements of commits: they travel together, never before what they speak of is on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.transactions.site.coordinator import Coordinator
from coterie.transactions.site.journal import OWED_MAX, Journal
from coterie.transactions.site.messages import Acknowledge, Decide
from coterie.transactions.site.site import OVERDUE, SILENCE, Site
from tests.transactions.broken_sites import broken_sites
from tests.transactions.site_world import Committed, World, key_at, world

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

A, B, B2 = key_at(1, 2), key_at(2, 2), key_at(2, 2, 1)


def transfer(sites: World) -> str:
    """Commit a transaction of site 1 at both sites, and let no timer ring."""
    attempt = sites.write(1, {A: b"1", B: b"1"})
    sites.call(1, "commit", attempt.name)
    sites.run()
    assert isinstance(sites.answer(attempt.name), Committed)
    return attempt.name


def unacknowledged(sites: World) -> list[str]:
    names: list[str] = sites.site(1).facts()["not acknowledged"]
    return names


def test_they_leave_together_with_a_record_when_there_are_many() -> None:
    sites = world()
    names = [transfer(sites) for _ in range(OWED_MAX)]
    assert sites.count(Acknowledge) == 0
    assert unacknowledged(sites) == sorted(names)
    late = transfer(sites)  # whose vote is a record
    [message] = [message for _, _, message in sites.sent if isinstance(message, Acknowledge)]
    assert (message.name, *message.others) == tuple(names)
    assert unacknowledged(sites) == [late]


def test_few_leave_when_a_timer_rings() -> None:
    sites = world()
    names = [transfer(sites) for _ in range(3)]
    sites.ring(2, OVERDUE)
    assert [(message.name, *message.others) for message in sites.mail[2, 1]] == [tuple(names)]
    sites.run()
    assert unacknowledged(sites) == []


def tell_again(kind: type[Site]) -> None:
    """Let a site acknowledge nothing by itself."""
    sites = world(kind=kind)
    name = transfer(sites)
    sites.ring(1, SILENCE)
    assert not sites.mail[1, 2], "the acknowledgement may be on its way"
    sites.ring(1, SILENCE)
    assert [message.name for message in sites.mail[1, 2]] == [name]
    sites.run()
    assert unacknowledged(sites) == []


def test_a_site_that_is_told_again_acknowledges_at_once() -> None:
    tell_again(Site)


def test_a_coordinator_that_reads_one_name_of_a_message_hears_all_in_the_end() -> None:
    """A site of an older version does: what it tells again is acknowledged one by one."""
    sites = world()
    names = [transfer(sites) for _ in range(3)]
    sites.ring(2, OVERDUE)
    sites.mail[2, 1] = [Acknowledge(each.time, each.name) for each in sites.mail[2, 1]]
    sites.run()
    assert unacknowledged(sites) == sorted(names[1:])
    for _ in range(2):
        sites.ring(1, SILENCE)
        sites.run()
    assert unacknowledged(sites) == []


def test_a_coordinator_that_was_restarted_tells_its_decisions_at_once() -> None:
    sites = world()
    name = transfer(sites)
    sites.crash(1)
    sites.start(1)
    told = [message for message in sites.mail[1, 2] if isinstance(message, Decide)]
    assert [message.name for message in told] == [name]
    sites.run()
    assert unacknowledged(sites) == []


def lose_what_is_late(kind: type[Site]) -> None:
    """Crash a site just after a record of it has taken acknowledgements along."""
    sites = world(kind=kind)
    for _ in range(OWED_MAX):
        transfer(sites)
    for key, value in ((A, b"2"), (B2, b"2")):  # the last of them is not like the others
        attempt = sites.write(1, {key: value, B: value})
        sites.call(1, "commit", attempt.name)
        sites.run()
    sites.crash(2)
    sites.start(2)
    sites.settle()
    assert sites.value(1, B) == sites.value(1, B2) == b"2"
    assert sites.idle()


def test_what_they_speak_of_outlasts_a_crash() -> None:
    lose_what_is_late(Site)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "old", "new", "notice"),
    [
        (
            Journal,
            "        self._write_overdue(out)\n        self.logged += 1\n",
            "        self.logged += 1\n",
            lose_what_is_late,
        ),
        (
            Coordinator,
            "        self.unacknowledged = list(journal.decided)\n",
            "",
            tell_again,
        ),
    ],
    ids=["a record overtakes what is overdue", "no decision is told again"],
)
def test_a_broken_line_is_noticed(
    part: type[msgspec.Struct], old: str, new: str, notice: Callable[[type[Site]], None]
) -> None:
    kind = broken_sites(part, old, new).site
    with pytest.raises((AssertionError, KeyError)):
        notice(kind)
