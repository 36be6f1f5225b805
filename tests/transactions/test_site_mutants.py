"""Each rule of two-phase commit, broken in one line: a crash, a storm or a script must notice."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from coterie.errors import MisuseError
from coterie.transactions.catalogue import scheme
from coterie.transactions.schemes.scheduler import Committed
from coterie.transactions.site import chunks
from coterie.transactions.site.site import SILENCE
from tests.transactions.site_storms import judge as judge_storm
from tests.transactions.site_storms import site_storm
from tests.transactions.site_world import World, key_at, world
from tests.transactions.test_site_scans import lossy_scan
from tests.transactions.test_two_phase_commit import reader_left
from tests.transactions.test_two_phase_commit_crashes import SHAPES, crashing_runs, judge

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS = (
    "keeper",
    "serving",
    "participant",
    "asking",
    "coordinator",
    "promising",
    "searching",
    "site",
    "clients",
)
NOTICED = (AssertionError, KeyError, MisuseError)  # by a test, or by the site itself
A, B, C = key_at(1, 3), key_at(2, 3), key_at(3, 3)


@dataclass(frozen=True)
class Mutant:
    """A line of a layer, broken."""

    layer: str
    old: str
    new: str
    noticed: Callable[[ModuleType, ModuleType], None]  # must raise; given the last two layers


def home(layer: str) -> str:
    """Name the module of a layer."""
    return f"coterie.transactions.{'trials' if layer == 'clients' else 'site'}.{layer}"


def mutated(layer: str, old: str, new: str) -> tuple[ModuleType, ModuleType]:
    """Build the layers from this one on anew, with one line changed."""
    above = LAYERS[LAYERS.index(layer) :]
    originals = {name: importlib.import_module(home(name)) for name in above}
    try:
        for name in above:
            file = originals[name].__file__
            assert file is not None
            with open(file, encoding="utf-8") as source:  # noqa: PTH123 - one line
                text = source.read()
            if name == layer:
                assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
                text = text.replace(old, new)
            module = ModuleType(home(name))
            module.__file__ = file
            sys.modules[home(name)] = module
            exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102 - our own source
        return sys.modules[home("site")], sys.modules[home("clients")]
    finally:
        sys.modules.update({home(name): module for name, module in originals.items()})


def aborts(site: ModuleType, _clients: ModuleType) -> None:
    """Abort what another site decides about: it commits, so it must not count as aborted."""
    sites = world(sites=3, kind=site.Site)
    writer = sites.write(1, {B: b"1"}).name
    sites.call(1, "commit", writer)
    aborted = sites.call(1, "abort", writer)
    sites.settle()
    assert aborted == (sites.value(3, B) is None)


def scans(site: ModuleType, _clients: ModuleType) -> None:
    """Lose every part of a scan once, and every request for one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_BYTES", 2 * (chunks.FOUND_BYTES + 10))
        lossy_scan(site.Site)


def crashes(site: ModuleType, _clients: ModuleType) -> None:
    """Crash after every action of every shape of transaction."""
    for name, variant in (("two-phase-locking", "detection"), ("timestamp-ordering", None)):
        for shape in SHAPES.values():
            for soon in (True, False):
                for point, sites, transaction in crashing_runs(
                    name, variant, shape, soon, site.Site
                ):
                    judge(point, sites, transaction, shape)


def storms(_site: ModuleType, clients: ModuleType) -> None:
    """Run storms of locking and of optimistic sites."""
    for name in ("two-phase-locking", "optimistic"):
        for seed in range(40):
            build = scheme(name).variant().build
            judge_storm(site_storm(build, 3, seed, kind=clients.BusySite))


def restarts(site: ModuleType, _clients: ModuleType) -> None:
    """Begin transactions before and after crashes."""
    sites = World(scheme("two-phase-locking").variant().build, 2, site.Site)
    stamps = []
    for _ in range(3):
        stamps += [sites.call(1, "begin").stamp for _ in range(3)]
        sites.crash(1)
        sites.start(1)
    assert stamps == sorted(set(stamps))


def duplicates(site: ModuleType, _clients: ModuleType) -> None:
    """Deliver every message twice."""
    sites = World(scheme("two-phase-locking").variant().build, 3, site.Site)
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


def readers_left(site: ModuleType, _clients: ModuleType) -> None:
    """Ask a reader that has left about a transaction that has committed."""
    for again in (False, True):
        sites, _ = reader_left(again, site.Site)
        sites.start(1)
        sites.settle()
        assert sites.value(3, A) == sites.value(3, B) == b"1"


def late_prepare(site: ModuleType, _clients: ModuleType) -> None:
    """Let a site lose what it was asked, and part of it come again, before it votes."""
    sites = World(scheme("two-phase-locking").variant().build, 3, site.Site)
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
    assert sites.value(3, C) == sites.value(3, key_at(2, 3, 1))


def silent_coordinator(site: ModuleType, _clients: ModuleType) -> None:
    """Leave a site in doubt for long."""
    sites = World(scheme("two-phase-locking").variant().build, 3, site.Site)
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
    "it votes before its writes are on disk": Mutant(
        "participant", "            self.log(ready, out)\n", "", crashes
    ),
    "the decision is told before it is on disk": Mutant(
        "coordinator", "            self.log(self.decided[name], out)\n", "", crashes
    ),
    "a commit of one phase is told before it is on disk": Mutant(
        "participant", "self.log(Wrote(name, number, prepared.writes), out)", "pass", crashes
    ),
    "a commit is acknowledged before it is on disk": Mutant(
        "participant", "        self.log(Settled(name, number), out)\n", "", crashes
    ),
    "unknown means committed": Mutant(
        "participant",
        "# presumed to be aborted\n            out.send(sender, Decide(self.clock, name))",
        "\n            out.send(sender, Decide(self.clock, name, __import__('coterie.clocks').clocks.Stamp(time_of(name), self.me)))",
        crashes,
    ),
    "one that has voted gives up": Mutant(
        "participant",
        "            if name in self.ready:\n",
        "            if False:\n",
        silent_coordinator,
    ),
    "a decision is carried out twice": Mutant(
        "participant",
        "        if name in self.ready:\n            self._settle_doubt",
        "        if True:\n            self._settle_doubt",
        duplicates,
    ),
    "an unknown commit is not acknowledged": Mutant(
        "participant",
        "        if number is not None:  # also",
        "        if False:  # also",
        crashes,
    ),
    "one acknowledgement is enough": Mutant(
        "participant", "site for site in decided.sites if site != sender", "", crashes
    ),
    "the clock begins anew after a crash": Mutant(
        "keeper", "        self.clock = self.reserved = past.time\n", "", restarts
    ),
    "the clock is not on disk": Mutant(
        "keeper", "            self.log(Reserved(self.reserved), out)\n", "", restarts
    ),
    "who knows nothing says that it was aborted": Mutant(
        "participant",
        "        else:\n            out.send(sender, Pending(self.clock, name))\n\n    def _forget",
        "        else:\n            out.send(sender, Decide(self.clock, name))\n\n    def _forget",
        readers_left,
    ),
    "one that has ended here may begin once more": Mutant(
        "serving", "opening is None or name in self.ended or", "opening is None or", readers_left
    ),
    "a site votes though it has forgotten requests": Mutant(
        "participant",
        "        elif message.count != part.count:\n",
        "        elif False:\n",
        late_prepare,
    ),
    "what another site decides about is aborted": Mutant(
        "asking", "if not course.is_decided_by(self.me):", "if False:", aborts
    ),
    "a part of a scan counts as all of it": Mutant(
        "asking", "if message.more:", "if message.more and False:", scans
    ),
    "who misses a part of a scan asks for the scan": Mutant(
        "coordinator", "visit.count, visit.request", "visit.count, course.request", scans
    ),
    "a part of a scan that is sent again says that it is the last": Mutant(
        "serving", "part.reply, sender, out, more=more)", "part.reply, sender, out)", scans
    ),
    "one vote is enough": Mutant(
        "coordinator",
        "        if not course.awaited:\n            self._commit",
        "        if True:\n            self._commit",
        crashes,
    ),
    "the smallest number is taken": Mutant(
        "coordinator", "max(course.number, vote.number)", "min(course.number, vote.number)", storms
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    broken = mutated(mutant.layer, mutant.old, mutant.new)
    with pytest.raises(NOTICED):
        mutant.noticed(*broken)


@pytest.mark.parametrize(
    "notice",
    [crashes, storms, restarts, duplicates, readers_left, late_prepare, silent_coordinator],
)
def test_what_notices_them_finds_nothing_wrong_with_the_rules_as_they_are(
    notice: Callable[[ModuleType, ModuleType], None],
) -> None:
    site, clients = (importlib.import_module(home(name)) for name in ("site", "clients"))
    notice(site, clients)


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
