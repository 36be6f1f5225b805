"""The failure detector and stable storage of the simulated world."""

from __future__ import annotations

from coterie.lab.simulate import Crash, Pause, Restart, Simulation
from coterie.process import Outbox, Payload, Process


class Nothing(Payload, frozen=True):
    pass


class Watcher(Process[Nothing]):
    """Watches some others, remembers what it hears, and counts its starts on stable storage."""

    peers: tuple[int, ...] = ()
    heard: list[tuple[int, float]] = []
    starts: int = 0
    incarnation: int = 0

    def start(self, out: Outbox[Nothing]) -> None:
        self.starts = len(out.saved) + 1
        self.incarnation = out.incarnation
        out.save(b"x" * self.starts)
        for peer in self.peers:
            out.watch(peer)

    def down(self, peer: int, out: Outbox[Nothing]) -> None:
        self.heard.append((peer, out.now))


def run(processes: list[Watcher], *faults: Crash | Restart | Pause, until: float = 50) -> None:
    Simulation(processes, faults=faults, until=until, detection=2.0).run()


def test_those_who_watch_hear_of_a_crash_after_the_detection_time() -> None:
    watcher, other, third = Watcher(1, (2,)), Watcher(2), Watcher(3)
    run([watcher, other, third], Crash(2, 10))
    assert watcher.heard == [(2, 12.0)]
    assert third.heard == []


def test_who_begins_to_watch_a_dead_process_hears_of_it_too() -> None:
    class Late(Watcher):
        def start(self, out: Outbox[Nothing]) -> None:
            out.set_timer("LATE", 20)

        def ring(self, timer: str, out: Outbox[Nothing]) -> None:
            out.watch(2)

    late = Late(1)
    run([late, Watcher(2)], Crash(2, 10))
    assert late.heard == [(2, 22.0)]


def test_who_no_longer_watches_hears_nothing() -> None:
    class Fickle(Watcher):
        def start(self, out: Outbox[Nothing]) -> None:
            out.watch(2)
            out.set_timer("ENOUGH", 11)

        def ring(self, timer: str, out: Outbox[Nothing]) -> None:
            out.unwatch(2)

    fickle = Fickle(1)
    run([fickle, Watcher(2)], Crash(2, 10))
    assert fickle.heard == []


def test_a_paused_process_hears_of_a_crash_when_it_goes_on() -> None:
    watcher = Watcher(1, (2,))
    run([watcher, Watcher(2)], Crash(2, 10), Pause(1, 11, 9))
    assert watcher.heard == [(2, 20.0)]


def test_a_process_without_memory_has_a_new_incarnation_and_what_it_saved() -> None:
    first = Watcher(1, (2,))
    simulation = Simulation(
        [first, Watcher(2)], faults=[Crash(1, 5), Restart(1, 10), Crash(2, 20)], until=50
    )
    simulation.run()
    again = simulation.process(1)
    assert isinstance(again, Watcher)
    assert (first.incarnation, first.starts) == (0, 1)
    assert (again.incarnation, again.starts) == (1, 2)
    assert again.heard == [(2, 23.0)]
