"""Conservative transactions: how they wait, at one site and at several, and with rules broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.clocks import Stamp
from coterie.lab.serializability import check
from coterie.lab.trials.trial import Runner, Trial, explore, program
from coterie.transactions.schemes.conservative import SCHEME, Conservative
from coterie.transactions.schemes.conservative.rules import has_to_come_first
from coterie.transactions.schemes.scheduler import EVERYTHING, Attempt, Declaration
from coterie.transactions.schemes.span import Span
from tests.transactions.announced import Announced, announced_at_two_sites, announced_storm
from tests.transactions.desk import faulty, tally, trial_of
from tests.transactions.mutants import Mutant, break_rule
from tests.transactions.scripts import INSTALLS, KEYS, LOST_UPDATE, READ_SKEW, WRITE_SKEW
from tests.transactions.storms import storm
from tests.transactions.test_schemes_explored import begin

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Scheduler


class Watched(Conservative):
    """Looks at every wait: who waits has the larger stamp."""

    def _go_on(self, out: list[Any]) -> None:
        super()._go_on(out)
        for name, others in self.waits().items():
            stamp = self.active[name].attempt.stamp
            assert all(self.active[other].attempt.stamp < stamp for other in others)
            assert others or self.awaited(), f"nobody is in the way of {name}"


@pytest.mark.slow
def test_waits_go_from_larger_stamps_to_smaller_ones() -> None:
    """2.2 f: so there is no deadlock; and whoever is in nobody's way waits for nobody."""
    for seed in range(100):
        assert not storm(Watched(), seed, in_order=True).waiting(), f"seed {seed}"


# Several sites


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("variant", ["classes", "unanalysed"])
def test_storms_over_sites_are_serializable_and_nobody_is_refused(count: int, variant: str) -> None:
    """2.5 c, g: sites that have nothing to begin promise when they are asked."""
    for seed in range(150):
        build = [SCHEME.build(variant, site, count) for site in range(1, count + 1)]
        trial = announced_storm(build, seed)
        states = {runner.state for runner in trial.runners.values()}
        assert states <= {"committed", "aborted"}, f"seed {seed}"
        assert check(trial.history()).serializable, f"seed {seed}"


def test_with_one_site_idle_everybody_gets_through() -> None:
    """2.5 c: liveness, by promises of the idle site alone."""
    trial = Announced(
        [Conservative(sites=2), Conservative(sites=2)], ("x", "y"), homes={"x": 0, "y": 1}
    )
    for time in range(1, 6):
        trial.join(f"T{time}", time, 1, "r(x) w(y)")
    while trial.movable():
        trial.move(trial.movable()[0])
    assert {runner.state for runner in trial.runners.values()} == {"committed"}
    assert trial.nulls == 10  # one for each transaction at each of its two sites


# Mutants

MUTANTS = {
    "older ones are not waited for": (
        Mutant(Conservative, "if other.attempt.stamp < stamp and has_to", "if False and has_to"),
        LOST_UPDATE,
    ),
    "younger ones are waited for instead": (
        Mutant(
            Conservative, "if other.attempt.stamp < stamp and", "if stamp < other.attempt.stamp and"
        ),
        LOST_UPDATE,
    ),
    "writes do not wait": (
        Mutant(
            Conservative,
            "Request(tuple(map(Span.of, active.writes)), writing=True)",
            "Request((), writing=True)",
        ),
        INSTALLS,
    ),
    "older reads are not waited for": (
        Mutant(
            has_to_come_first,
            "disturbs(other.attempt.declaration, request.spans, request.writing)",
            "disturbs(other.attempt.declaration, request.spans, False)",
        ),
        READ_SKEW,
    ),
    "prepared ones are not waited for": (
        Mutant(
            has_to_come_first,
            "return any(key in span for key in other.writes for span in request.spans)",
            "return False",
        ),
        LOST_UPDATE,
    ),
    "nobody goes on after a commit": (
        Mutant(
            Conservative,
            "        out.append(Committed(active.attempt.name, stamp))\n        self._go_on(out)\n",
            "        out.append(Committed(active.attempt.name, stamp))\n",
        ),
        LOST_UPDATE,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_rule_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, scripts = MUTANTS[name]
    break_rule(mutant, monkeypatch)
    found = tally(explore(begin(Conservative(), scripts)))
    assert found.wrong + found.stuck > 0


def test_without_promises_an_older_one_comes_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.5 a: a mutant."""
    break_rule(Mutant(Conservative, "if promise < stamp", "if False"), monkeypatch)
    schedulers: list[Scheduler] = [Conservative(sites=2), Conservative(sites=2)]
    assert faulty(explore(announced_at_two_sites(schedulers, WRITE_SKEW)))


def test_writes_that_do_not_wait_for_the_word_of_readers_are_seen_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2.5 c: a mutant. Site 1 only writes, site 2 only reads; the reader is the older one."""
    both = (Span.of("x"), Span.of("y"))
    classes = ((Declaration((), both),), (Declaration(both, ()),))
    mutant = Mutant(
        Conservative, "disturbs(declared, spans, writing)", "disturbs(declared, spans, False)"
    )
    for right in (True, False):
        if not right:
            break_rule(mutant, monkeypatch)
        schedulers = [Conservative(sites=2, classes=classes) for _ in range(2)]
        trial = Announced(schedulers, ("x", "y"), homes={"x": 0, "y": 1})
        trial.join("T1", 2, 1, "w(x) w(y)")
        trial.join("T2", 1, 2, "r(x) r(y)")
        assert faulty(explore(trial)) is not right


def test_a_site_that_keeps_to_no_class_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.5 d: a mutant. Site 2 may read z, and does something else."""
    classes = ((EVERYTHING,), (Declaration((Span.of("z"),), ()),))
    break_rule(Mutant(Conservative, "elif self.classes and not", "elif False and not"), monkeypatch)
    schedulers = [Conservative(sites=2, classes=classes) for _ in range(2)]
    trial = Announced(schedulers, ("x", "y"), homes={"x": 0, "y": 1})
    trial.join("T1", 2, 1, "r(x) w(y)")
    trial.join("T2", 1, 2, "r(y) w(x)")
    assert faulty(explore(trial))


def test_beginnings_out_of_order_are_not_serializable(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.5 b: a mutant."""
    break_rule(Mutant(Conservative, "if not attempt.stamp > promise:", "if False:"), monkeypatch)
    assert faulty(explore(trial_of(Conservative(), LOST_UPDATE, KEYS)))


def test_a_null_below_an_earlier_promise_is_not_serializable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2.5 c: a mutant. Site 2 promises 7, takes it back, and begins a transaction with 4."""
    break_rule(Mutant(Conservative, "if stamp < promise:", "if False:"), monkeypatch)
    trial = Announced([Conservative(sites=2)], ("x", "y"), homes={"x": 0, "y": 0})
    trial.join("T5", 5, 1, "r(x) w(y)")
    trial.join("T4", 4, 2, "r(y) w(x)")
    trial.move("T5")
    assert trial.waiting() == ["T5"]
    for time in (7, 3):
        trial.promise(1, 2, Stamp(time, 2))
    for name in ("T4", "T4", "T4", "T4", "T5", "T5", "T5"):
        trial.keep_promises()
        trial.move(name)
    assert {runner.state for runner in trial.runners.values()} == {"committed"}
    assert not check(trial.history()).serializable


def test_undeclared_accesses_are_not_serializable(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.5 d: a mutant. Both declare nothing and read and write x."""
    mutant = Mutant(
        Conservative, "if not any(within(span, other) for other in declared):", "if False:"
    )
    break_rule(mutant, monkeypatch)
    trial = Trial(Conservative(), ("x",))
    for number in (1, 2):
        stamp = Stamp(number, 1)
        attempt = Attempt(f"T{number}", stamp, stamp, 0, Declaration((), ()))
        trial.runners[attempt.name] = Runner(attempt, program("r(x) w(x)"))
        trial.begin(attempt.name)
    assert faulty(explore(trial))
