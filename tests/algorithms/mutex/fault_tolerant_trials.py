"""Random trials of the fault-tolerant algorithm and of rules that it must not lack."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from coterie.algorithms.mutex.quorum.fault_tolerant.messages import Welcome
from coterie.algorithms.mutex.quorum.fault_tolerant.parameters import settings_of
from coterie.algorithms.mutex.quorum.fault_tolerant.process import FaultTolerant
from coterie.catalogue import find
from coterie.coteries import Coterie, UpdateTable
from coterie.lab.simulate import (
    Closed,
    Constant,
    Crash,
    Network,
    Restart,
    Trial,
    Uniform,
    random_crashes,
)
from coterie.process import Outbox
from tests.lab.simulate.toys import Script

if TYPE_CHECKING:
    from coterie.lab.simulate import Fault, Latency
    from coterie.process import ProcessId

Kind: TypeAlias = Literal["random", "crashes", "churn", "aimed"]

SIGMA = 2.0


@dataclass(frozen=True)
class Trials:
    """Draws sizes from 3 to 13, coteries, bounds of time, stays, and crashes of one of these kinds.

    `random`: up to N - 1 crashes, with returns. `crashes`: the same without returns. `churn`:
    everybody crashes and returns, again and again. `aimed`: each asks once and stays long, the
    first arbiter dies, and then a second process half-way through a broadcast.
    """

    process: type[FaultTolerant] = FaultTolerant
    size: int | None = None
    coterie: str | None = None
    keep: str | None = None
    kind: Kind = "random"

    def __call__(self, seed: int) -> Trial:
        random = Random(f"{seed}/fault-tolerant")
        size = self.size or random.randint(3, 13)
        families = ["plane", "plane", "grid", "singleton", "tree", "majority"]
        coterie = self.coterie or random.choice(families[: 6 if size < 9 else 4])
        parameters = {
            "sigma": str(SIGMA),
            "lambda": random.choice(["1", "0.000001"]),
            "t-max": random.choice(["auto", "6"]),
            "coterie": coterie,
            "keep": self.keep or random.choice(["larger", "smaller"]),
        }
        settings = settings_of(find("fault-tolerant").setup(size, None, parameters))
        latencies: list[Latency] = [
            Uniform(0.0, SIGMA),
            Uniform(0.9 * SIGMA, SIGMA),
            Constant(SIGMA),
        ]
        stay = random.choice([Uniform(0.0, 80.0), Uniform(0.0, 6.0)])
        asks = tuple((random.uniform(0.0, 60.0), process) for process in range(2, size + 1))
        aimed = Script(hold=Uniform(60.0, 150.0), asks=asks)
        return Trial(
            processes=[self.process(me, (), settings=settings) for me in settings.members],
            workload=aimed if self.kind == "aimed" else Closed(3, hold=stay),
            network=Network(latency=random.choice(latencies)),
            faults=self._faults(random, seed, size),
            max_time=20_000.0,
        )

    def _faults(self, random: Random, seed: int, size: int) -> list[Fault]:
        if self.kind == "churn":
            return _churn(random, size)
        if self.kind == "aimed":
            midway = Crash(random.randint(2, size), random.uniform(0, 60), random.randrange(size))
            return [Crash(1, random.uniform(0.0, 30.0)), midway]
        crashes = random.choice([1, random.randint(1, size - 1)])
        returns = self.kind == "random"
        return random_crashes(seed, size, duration=100.0, crashes=crashes, returns=returns)


def _churn(random: Random, size: int) -> list[Fault]:
    faults: list[Fault] = []
    for process in range(1, size + 1):
        time = random.uniform(0.0, 40.0)
        for _ in range(random.randint(1, 4)):
            midway = random.random() < 1 / 3
            faults.append(Crash(process, time, random.randrange(size) if midway else None))
            time += random.choice([random.uniform(0.0, 4.0), random.uniform(0.0, 30.0)])
            faults.append(Restart(process, time))
            time += random.uniform(0.0, 60.0)
    return faults


class NoHold(FaultTolerant):
    """Whoever is inside by a quorum of before says nothing."""

    def _hold_if_inside(self, process: ProcessId, out: Outbox[Any], *, back: bool) -> None:
        pass


class NoHoldForTheNewcomer(FaultTolerant):
    """Whoever is inside does not tell a process that comes back."""

    def _hold_if_inside(self, process: ProcessId, out: Outbox[Any], *, back: bool) -> None:
        if not back:
            super()._hold_if_inside(process, out, back=back)


class NoRelay(FaultTolerant):
    """News is believed and not passed on."""

    def _hear(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        if version > self.versions[process - 1]:
            self._note(process, version, out)
            self._react(process, out)


class ShortQuarantine(FaultTolerant):
    """The quarantine is the paper's sigma."""

    def _quarantine(self) -> float:
        return self.settings.sigma


class HandledAtOnce(FaultTolerant):
    """The quarantine counts on messages that are handled as they arrive: lambda is left out."""

    def _quarantine(self) -> float:
        return 2 * self.settings.sigma


class RequestNotResent(FaultTolerant):
    """Whoever is new in a quorum is counted on and not asked."""

    def _ask_quorum(self, quorum: frozenset[ProcessId], out: Outbox[Any]) -> None:
        if not self.asked:
            super()._ask_quorum(quorum, out)
        self.quorum = tuple(sorted(quorum))
        self.asked |= quorum


class QueueOfTheDead(FaultTolerant):
    """A request of the dead stays in the queue."""

    def _forget(self, process: ProcessId, out: Outbox[Any]) -> None:
        queue = list(self.queue)
        super()._forget(process, out)
        self.queue = [stamp for stamp in queue if stamp != self.owner]


class HolderNotWatched(FaultTolerant):
    """Nobody asks whether the owner of a Hold is still there."""

    def _awaited(self) -> set[ProcessId]:
        return super()._awaited() - self.holders


class AllAreKnown(FaultTolerant):
    """Messages for, or of, an earlier incarnation are taken for present ones."""

    def start(self, out: Outbox[Any]) -> None:
        super().start(out)
        self.strangers.clear()

    def _note(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        super()._note(process, version, out)
        self.strangers.discard(process)


class NoJoining(FaultTolerant):
    """Who comes back takes part at once."""

    def start(self, out: Outbox[Any]) -> None:
        super().start(out)
        self.joining = False


class EqualImagesDeleteEachOther(FaultTolerant):
    """Q works on a list: of two quorums that have become the same, neither is kept."""

    def coterie(self) -> Coterie:
        table = UpdateTable.cyclic(self.settings.members)
        coterie = Coterie(self.settings.members, self.settings.quorums)
        for dead in sorted(self.membership.down()):
            table = table.after([dead])
            stand_in = table.stand_in(dead)
            images = [
                (quorum - {dead}) | {stand_in} if dead in quorum else quorum
                for quorum in coterie.quorums
            ]
            kept = [
                image
                for place, image in enumerate(images)
                if not any(image <= other for i, other in enumerate(images) if i != place)
            ]
            coterie = Coterie([me for me in coterie.members if me != dead], kept)
        return coterie


class AnyWelcome(FaultTolerant):
    """A Welcome is minded, whatever has become of its sender since."""

    def _join(self, sender: ProcessId, welcome: Welcome, out: Outbox[Any]) -> None:
        super()._join(sender, welcome, out)
        self.strangers.discard(sender)


class NoWelcomeInJoining(FaultTolerant):
    """Who is joining welcomes nobody whom it hears of from others."""

    def _join(self, sender: ProcessId, welcome: Welcome, out: Outbox[Any]) -> None:
        aside: Outbox[Any] = Outbox(self.me)
        super()._join(sender, welcome, aside)
        for name, after in aside.timers:
            if after is None:
                out.cancel_timer(name)
            else:
                out.set_timer(name, after)
        for to, message in aside.sends:
            if not isinstance(message, Welcome):
                out.send(to, message)
