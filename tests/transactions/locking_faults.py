"""What can be wrong with a lock scheduler, and how each is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.algorithms.deadlock import Graph, all_of
from coterie.errors import MisuseError, UsageError
from coterie.lab.serializability import check
from coterie.lab.trials.trial import Trial, explore
from tests.transactions.leftovers import leftovers
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.transactions.schemes.scheduler import Scheduler
    from coterie.transactions.schemes.two_phase_locking import TwoPhaseLocking

SEEDS = 50  # of storms, at most; what is wrong shows in one of the first few


class Watched:
    """Passes requests on to a scheduler, and looks at all waits after each."""

    def __init__(self, scheduler: Any, variant: str) -> None:
        self.scheduler = scheduler
        self.variant = variant

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.scheduler, name)

        def request(*arguments: Any, **options: Any) -> None:
            method(*arguments, **options)
            look_at_waits(self.scheduler, self.variant)

        return request


def look_at_waits(scheduler: TwoPhaseLocking, variant: str) -> None:
    """By detection there is no cycle of waits; by age they go one way, but to prepared ones."""
    waits = scheduler.waits()
    assert list(waits) == list(scheduler.asked), "requests and claims differ"
    assert all(waits.values()), "somebody waits for nobody"
    if variant == "detection":
        graph = Graph({name: all_of(*others) for name, others in waits.items()})
        assert graph.deadlocked() == (), "a deadlock was overlooked"
        return
    attempts = {name: active.attempt for name, active in scheduler.active.items()}
    for name, others in waits.items():
        older = [other for other in others if attempts[other].age < attempts[name].age]
        younger = [other for other in others if other not in older]
        if variant == "wait-die":
            assert not older, f"{name} waits for {older}, which are older"
        else:
            running = [other for other in younger if not scheduler.active[other].prepared]
            assert not running, f"{name} waits for {running}, which are younger"


def storms(build: Callable[[], Any], variant: str, *, watched: bool) -> str:
    """Give the first fault in random runs."""
    for seed in range(SEEDS):
        scheduler = build()
        try:
            trial = storm(Watched(scheduler, variant) if watched else scheduler, seed)  # type: ignore[arg-type]  # a Watched passes all on
            serializable = check(trial.history()).serializable
        except (AssertionError, MisuseError, UsageError) as fault:
            return str(fault)
        if not serializable:
            return "not serializable"
        if trial.waiting():
            return "stuck"
        if leftovers(scheduler):
            return "something is left"
    return "nothing"


def waits(build: Callable[[], Any], variant: str) -> str:
    """Give the first wait that should not be, in all interleavings of upgrades among updates."""
    for scripts in (("r(x) u(x)", "u(x)", "u(x)"), ("u(x)", "u(x)", "r(x) u(x)")):
        points = [trial_of(build, scripts)]
        for point in points:
            try:
                look_at_waits(point.scheduler, variant)
            except AssertionError as fault:
                return str(fault)
            for name in point.movable():
                points.append(point.copy())
                points[-1].move(name)
    return "nothing"


CALM = (  # of these nobody need ever be refused
    ("u(x) w(x)", "u(x) w(x)"),
    ("r(x) w(x)", "w(x)"),
    ("r(x) s(,)", "w(x)"),
    ("w(x) w(y)", "s(,)"),
    ("s(,) w(x)", "w(x)"),
    ("r(x) w(x)", "w(x)", "s(,)"),
)


def needless_refusals(build: Callable[[], Any]) -> bool:
    return any(
        runner.state == "refused"
        for scripts in CALM
        for end in explore(trial_of(build, scripts))
        for runner in end.runners.values()
    )


def trial_of(build: Callable[[], Any], scripts: tuple[str, ...]) -> Trial:
    trial = Trial(build(), ("x", "y"))
    for number, text in enumerate(scripts, start=1):
        trial.add(f"T{number}", number, text)
    return trial


def victims(build: Callable[[], Any], failures: int) -> set[str]:
    """Name who is refused in a deadlock, whoever closes it, if T2 has failed so often before."""
    trial = Trial(build(), ("x", "y"))
    trial.add("T1", 1, "r(x) w(y)")
    trial.add("T2", 2, "r(y) w(x)", failures=failures)
    ends = list(explore(trial))
    return {name for end in ends for name, runner in end.runners.items() if runner.refusal}


STREAMS = (  # transactions of which one begins before the last has ended; who must not starve
    (("r(x)", "r(x)"), "w(x)"),
    (("s(,)", "s(,)"), "w(x)"),
    (("w(x)", "w(y)"), "s(,)"),
)


def starved(build: Callable[[], Any]) -> bool:
    """Tell whether a stream of transactions can keep somebody waiting for ever."""
    for stream, text in STREAMS:
        trial = trial_of(build, (stream[0], text))
        trial.move("T1")
        trial.move("T2")
        last = "T1"
        for number in range(3, 20):
            trial.add(f"T{number}", number, stream[number % 2])
            trial.move(f"T{number}")
            while last in trial.movable():
                trial.move(last)
            last = f"T{number}"
        if trial.runners["T2"].waiting:
            return True
    return False


def attempts_against_a_stream(scheduler: Scheduler, *, keeps_age: bool) -> int | None:
    """Count the attempts of a transaction; None if 50 fail.

    Before each attempt another transaction begins, which locks the same keys the other way round.
    """
    trial = Trial(scheduler, ("a", "b"))
    for attempt in range(1, 51):
        other, long = f"S{attempt}", f"L{attempt}"
        trial.add(other, 2 * attempt, "w(b) w(a)")
        age = 3 if keeps_age else None
        trial.add(long, 2 * attempt + 1, "w(a) w(b)", age=age, failures=attempt - 1)
        for name in (other, long, other, long):
            if name in trial.movable():
                trial.move(name)
        while movable := trial.movable():
            trial.move(movable[-1])
        if trial.runners[long].state == "committed":
            return attempt
    return None
