"""The leased quorum lock: votes with leases, fencing tokens and lazy release, over any coterie.

How to embed it. `Participant` and `Voter` are values that handle any number of named locks over one
session per pair. The program that runs them owns the sockets, the clock and the file:

    configuration = founding(settings)      number 0; later ones are decided by the voters
    part = participant(configuration, home) home: the voter whose quorum is asked first
    part = participant(configuration, home, lease)    the same with a shorter lease of its own
    voter = Voter(configuration)            or Voter(None): a spare, that may become a voter
    changer = Changer(name, configuration, goal)

    part.start(name, out)        once; `name` is random and new with every process start
    voter.start(name, out)       the same; reads `out.saved`

    part.acquire(lock, out)      then wait for `Acquired(lock, token)` among out.events; it comes
                                 within the step if the votes are still in hand
    part.acquire(lock, out, shared=True)
                                 the same for the shared mode: together with others that share, and
                                 with no other; so with reenter, try_reacquire and try_pass_on
    part.release(lock, out)      also after `Lost(lock, token)`, when the body has ended
    part.reenter(lock, out)      release and acquire in one step, for the next task of the process
    part.announce(lock, age, out)
                                 a task of the process, of this age, waits behind those that share,
                                 to be alone; 0: none any more. Then `reenter` with this age
    part.withdraw(lock, out)     cancel or time-out of a request that waits
    part.try_reacquire(lock, now), part.try_release(lock, now), part.try_pass_on(lock, now)
                                 acquire, release and reenter without an outbox, where the votes in
                                 hand decide; falsy, with nothing done, where they do not
    part.close(out)              orderly end, nothing held: voters need not wait for expiry

    part.receive(voter_id, frame, out)         frames Reply, Ack, Answer, Nack, and Behind, Stale,
                                               NewConfiguration; `Moved` tells of new voters
    voter.receive(peer_id, frame, out)         frames Data, Beat, Probe, Term, Bye, and Query, Close,
                                               Prepare, Accept, NewConfiguration of changers
    changer.receive(voter_id, frame, out)      frames Condition, Closed, Promise, Accepted, Refused
    part.connected(voter_id, out)              a new connection stands: unanswered frames go again
    voter.connected(participant_name, out)     the same at the other end
    part.ring(PARTICIPANT, out), voter.ring(VOTER, out), changer.ring(CHANGER, out)
                                               their one timer each has run out

    part.valid(lock, now), part.remaining(lock, now)        from the clock, not a flag

Every call takes an `Outbox` whose `now` was read from a monotonic clock that counts time while the
machine sleeps, just before the call; frames carry it as their time of sending. Afterwards carry the
outbox out in the order save, send, arm, tell. `out.save` (by voters, seldom) must be on disk before
the frames leave. A process that has slept delivers what has arrived before it lets timers ring.
Frames may be lost, doubled, late or out of order; within one connection they should be in order.
Participants are told apart by the name in the frames; `peer_id` only says where answers go.

The protocol with its proofs is docs/protocol/leased.md; numbers such as 5.4 in this package are its
sections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.leased.changer import Changer, Goal
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Part, Rule, founding
from coterie.algorithms.mutex.quorum.leased.participant import participant
from coterie.algorithms.mutex.quorum.leased.process import Leased
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.catalogue import Algorithm, Cost, Costs, Parameter, Variant, between, exactly
from coterie.coteries import parse_coterie
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from coterie.catalogue import Setup


def settings_of(setup: Setup) -> Settings:
    """Derive all times from the lease; a message delay is the unit, and a round trip is two."""
    lease = setup.parameters["lease"]
    settings = Settings(
        voters=setup.parameters["voters"],
        coterie=setup.parameters["coterie"],
        policy=setup.parameters["policy"],
        lease=lease,
        margin=lease / 40,
        heartbeat=lease / 4,
        hedge=min(lease / 5, 16.0),
        unwind=lease,
    )
    settings.quorums.quorum_for(1)  # refuses a coterie that cannot be
    return settings


def _build(setup: Setup) -> list[Leased]:
    settings = settings_of(setup)
    wanted: tuple[int, ...] = setup.parameters["change"]
    if not wanted:
        configuration = founding(settings)
        return [_process(me, configuration, ()) for me in range(1, setup.size + 1)]
    voters = Part(tuple(range(1, settings.voters + 1)), settings)
    configuration = Configuration(Rule(1, (voters,)), last_seat=setup.size)
    processes = [_process(me, configuration, wanted) for me in range(1, setup.size + 1)]
    new = Part(wanted, msgspec.structs.replace(settings, voters=len(wanted)))
    processes[-1].changer = Changer("", configuration, Goal(1, new))
    return processes


def _process(me: int, configuration: Configuration, wanted: tuple[int, ...]) -> Leased:
    """Make a process that takes locks, and votes now or is a spare that is to."""
    voters = len(configuration.seats)
    voter = None
    if me <= voters or me in wanted:
        voter = Voter(configuration if me <= voters else None)
    return Leased(me, participant(configuration, home=(me - 1) % voters + 1), voter)


def _parse_voters(text: str, size: int) -> int:
    if text == "all":
        return size
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"expected a number of voters from 1 on, or 'all', got {text!r}")
    if int(text) > size:
        raise ConfigError(f"{text} of {size} processes cannot vote")
    return int(text)


def _parse_change(text: str, size: int) -> tuple[int, ...]:
    if text == "none":
        return ()
    words = text.split(",")
    seats = tuple(int(word) for word in words if word.isdecimal())
    if len(seats) != len(words) or len(set(seats)) != len(seats):
        raise UsageError(
            f"expected the voters that are to be, such as 1,2,4, or none, got {text!r}"
        )
    if not all(1 <= seat <= size for seat in seats):
        raise ConfigError(f"the voters that are to be are among processes 1 to {size}, got {text}")
    return seats


def _parse_policy(text: str, _size: int) -> str:
    if text not in ("all", "quorum"):
        raise UsageError(f"unknown policy: {text!r}; choose from: all, quorum")
    return text


def _parse_lease(text: str, _size: int) -> float:
    try:
        lease = float(text)
    except ValueError:
        lease = 0.0
    if not 0 < lease < float("inf"):
        raise UsageError(f"expected a lease in message delays, greater than 0, got {text!r}")
    return lease


# What it costs, counted in frames: lock messages of one step share one. Heartbeats come on top, two
# frames a session and period, however many locks there are.


def _asked(setup: Setup) -> tuple[int, int]:
    """Return the fewest and the most voters that one process asks, where asking oneself is free."""
    voters = setup.parameters["voters"]
    quorums = parse_coterie(setup.parameters["coterie"], voters)
    counts = []
    for me in range(1, setup.size + 1):
        home = (me - 1) % voters + 1
        everyone = setup.parameters["policy"] == "all"
        asked = set(quorums.members) if everyone else set(quorums.quorum_for(home))
        counts.append(len(asked - {me}))
    return min(counts), max(counts)


def _idle(setup: Setup) -> Cost:
    """Request and Grant, and where another kept the votes Inquire and Release before the Grant.

    A session that begins with a request that has to wait costs an Ack; releases that nothing
    follows are asked after by a heartbeat.
    """
    low, high = _asked(setup)
    return between(2 * low, 7 * high, "2K to 4K + beats")


def _saturated(setup: Setup) -> Cost:
    """Request, Grant and Release; a displaced vote costs Inquire, Yield and another Grant."""
    low, high = _asked(setup)
    return between(2 * low, 7 * high, "3K + beats")


def _client_delay(setup: Setup) -> Cost:
    _, high = _asked(setup)
    return between(0, 4 if high else 0, "2 or 4")


def _synchronisation_delay(setup: Setup) -> Cost:
    if setup.size == 1:
        return exactly(0, "0")
    return between(1, 2, "1 or 2")


COSTS = Costs(
    idle=_idle,
    again=lambda setup: exactly(0, "0"),
    saturated=_saturated,
    client_delay=_client_delay,
    synchronisation_delay=_synchronisation_delay,
)


ALGORITHM = Algorithm(
    name="leased",
    family="quorum",
    summary="get leased votes of a quorum with a fencing token, and keep them until asked",
    citation=(
        "This library; after Maekawa (1985) and Sanders (1987), Roucairol and Carvalho (1983),"
        " Gray and Cheriton (1989), and Hupfeld and others (2009)."
    ),
    process=Leased,
    build=_build,
    costs=COSTS,
    assumes=("clock rates within 0.5 %", "a voter's storage survives"),
    tolerates=("crash", "restart", "pause", "partition", "loss", "duplication", "reordering"),
    causal=False,
    reads_clock=True,
    variants=(Variant("lazy", "a process that leaves keeps its votes until another asks"),),
    parameters=(
        Parameter(
            "coterie",
            "majority",
            "the quorums, such as plane, grid or majority",
            lambda text, _: text,
        ),
        Parameter(
            "voters", "all", "how many processes vote: the first ones, or all", _parse_voters
        ),
        Parameter("policy", "quorum", "which voters to ask: one quorum, or all", _parse_policy),
        Parameter("lease", "1000", "how long a vote counts, in message delays", _parse_lease),
        Parameter(
            "change",
            "none",
            "the voters that take over while it runs, such as 1,2,4; the last process sees to it",
            _parse_change,
        ),
    ),
)
