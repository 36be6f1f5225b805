"""What goes wrong, as text and in the run."""

from __future__ import annotations

import pytest

from coterie.errors import ConfigError, UsageError
from coterie.lab.simulate import (
    Burst,
    Closed,
    Crash,
    Drift,
    Fault,
    Lose,
    Network,
    OneAtATime,
    Partition,
    Pause,
    Restart,
    Simulation,
    Uniform,
    parse_fault,
    random_faults,
)
from coterie.process import Outbox, Process
from coterie.trace import Crashed, Delivered, Dropped, Header, Paused, Resumed, Started, Trace
from tests.lab.simulate.toys import Careless, Debtor, Note, Postman, Script, Server, Ticker, state

TEXTS: dict[str, Fault] = {
    "crash 3 @ 10": Crash(3, 10),
    "restart 3 @ 20.5": Restart(3, 20.5),
    "restart 3 @ 20 with memory": Restart(3, 20, memory=True),
    "pause 3 @ 5 for 10": Pause(3, 5, 10),
    "partition 1,2 | 3,4,5 @ 5 for 10": Partition(((1, 2), (3, 4, 5)), 5, 10),
    "partition 1|2|3@5": Partition(((1,), (2,), (3,)), 5),
    "drift 3 1.01": Drift(3, 1.01),
    "drift 3 0.99 -5": Drift(3, 0.99, -5),
    "lose 0.1 @ 5 for 10": Lose(0.1, 5, 10),
    "lose 1 @ 0": Lose(1, 0),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_fault_is_read_from_text_and_written_back(text: str) -> None:
    fault = parse_fault(text)
    assert fault == TEXTS[text]
    assert parse_fault(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "choose from: crash, drift, lose, partition, pause, restart"),
        ("crush 3 @ 10", "did you mean 'crash'"),
        ("crash 3", "expected crash P @ TIME"),
        ("crash three @ 10", "expected crash P @ TIME"),
        (f"crash {'3' * 5_000} @ 10", "expected crash P @ TIME"),
        (f"crash 3 @ 10 after {'3' * 5_000}", "expected crash P @ TIME"),
        (f"partition {'3' * 5_000} | 1 @ 10", "expected partition P,P"),
        ("crash 3 @ -1", "times and durations are at least 0"),
        ("restart 3 @ 20 with luck", r"expected restart P @ TIME \[with memory\]"),
        ("pause 3 @ 5", "expected pause P @ TIME for DURATION"),
        ("partition 1,2 @ 5", r"expected partition P,P \| P,P @ TIME"),
        ("partition 1,,2 | 3 @ 5", r"expected partition P,P \| P,P @ TIME"),
        ("drift 3", "expected drift P RATE"),
        ("drift 3 0", "the rate must be greater than 0"),
        ("lose 2 @ 5", "probability between 0 and 1"),
    ],
)
def test_a_bad_fault_says_what_was_expected(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_fault(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("crash 4 @ 1", "names process 4; there are 1 to 3"),
        ("pause 0 @ 1 for 1", "names process 0; there are 1 to 3"),
        ("partition 1,2 | 2,3 @ 1", "names process 2 twice"),
    ],
)
def test_a_fault_that_does_not_fit_the_processes_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Simulation([Postman(1), Postman(2), Postman(3)], faults=[parse_fault(text)])


def ticking(*faults: str, until: float = 100) -> tuple[Ticker, Ticker, Trace]:
    """Let process 1 tick at 10, 20 and 30, and tell process 2."""
    simulation = Simulation(
        [Ticker(1, neighbour=2), Ticker(2, ticks=1)],
        faults=[parse_fault(fault) for fault in faults],
        until=until,
        header=Header(algorithm="toy", size=2),
    )
    trace = simulation.run().trace
    assert trace is not None
    return state(simulation, 1), state(simulation, 2), trace


def dropped(trace: Trace) -> list[tuple[float, int]]:
    """List when which message was lost."""
    return [(record.time, record.number) for record in trace.records if isinstance(record, Dropped)]


def test_timers_ring_when_due_unless_cancelled_and_may_be_set_again() -> None:
    sender, receiver, _ = ticking()
    assert sender.readings == [10, 20, 30]
    assert receiver.heard == [(1, 11), (2, 21), (3, 31)]


def test_messages_to_a_dead_process_are_lost() -> None:
    sender, receiver, _ = ticking("crash 2 @ 15", "restart 2 @ 25 with memory")
    assert sender.readings == [10, 20, 30]
    assert receiver.heard == [(1, 11), (3, 31)]


def test_a_dead_process_takes_no_steps() -> None:
    sender, _, _ = ticking("crash 1 @ 15")
    assert sender.readings == [10]


def test_with_memory_a_process_goes_on_with_all_it_knew_and_late_timers_ring() -> None:
    sender, _, _ = ticking("crash 1 @ 15", "restart 1 @ 27 with memory")
    assert sender.readings == [10, 27, 37]


def test_without_memory_a_process_begins_anew() -> None:
    sender, _, _ = ticking("crash 1 @ 15", "restart 1 @ 27")
    assert sender.readings == [37, 47, 57]


@pytest.mark.parametrize(("restart", "rang"), [("", 0), (" with memory", 3)])
def test_timers_are_part_of_the_memory(restart: str, rang: int) -> None:
    faults = [parse_fault("crash 2 @ 5"), parse_fault(f"restart 2 @ 6{restart}")]
    simulation = Simulation([Debtor(1, 3), Debtor(2)], faults=faults, until=50)
    simulation.run()
    assert state(simulation, 2).rang == rang


def test_each_process_begins_anew_as_what_it_was() -> None:
    faults: list[Fault] = [Crash(1, 5), Restart(1, 6), Crash(2, 5), Restart(2, 6)]
    processes = [Postman(1, 2), Ticker(2, period=3, ticks=1)]
    simulation = Simulation(processes, faults=faults, until=20)
    simulation.run()
    assert (state(simulation, 1), state(simulation, 2).readings) == (Postman(1, 2, [], 1), [9])


def test_while_paused_messages_and_timers_wait() -> None:
    sender, receiver, _ = ticking("pause 1 @ 15 for 20", "pause 2 @ 5 for 10")
    assert sender.readings == [10, 35, 45]
    assert receiver.heard == [(1, 15), (2, 36), (3, 46)]
    assert receiver.readings == [15]


def test_it_is_not_quiet_while_mail_waits_for_one_who_sleeps() -> None:
    servers = [Server(1), Server(2), Server(3)]
    result = Simulation(servers, workload=OneAtATime(2, [2, 3]), faults=[Pause(1, 2.5, 10)]).run()
    assert result.messages_per_entry_afresh == 3
    assert result.client_delay is not None
    assert (result.client_delay.max, result.time) == (2, 15.5)


def test_mail_of_a_paused_process_dies_with_it() -> None:
    faults = "pause 2 @ 5 for 40", "crash 2 @ 15", "restart 2 @ 25 with memory"
    _, receiver, trace = ticking(*faults)
    assert receiver.heard == [(3, 31)]
    assert receiver.readings == [25]
    assert dropped(trace) == [(15, 1), (21, 2)]


def test_a_partition_loses_what_is_sent_or_arrives_while_the_link_is_cut() -> None:
    _, receiver, _ = ticking("partition 1 | 2 @ 10.5 for 10")
    assert receiver.heard == [(3, 31)]


def test_who_is_on_no_side_of_a_partition_reaches_everyone() -> None:
    simulation = Simulation(
        [Postman(1, 3), Postman(2), Postman(3, 2)], faults=[parse_fault("partition 2 | 3 @ 0")]
    )
    simulation.run()
    assert state(simulation, 2).got == [1, 2, 3]


def test_links_lose_messages_for_a_while() -> None:
    _, receiver, _ = ticking("lose 1 @ 15 for 10")
    assert receiver.heard == [(1, 11), (3, 31)]


def test_a_drifting_clock_shows_its_own_time_and_times_its_timers() -> None:
    sender, receiver, _ = ticking("drift 1 2 100")
    assert sender.readings == [110, 120, 130]
    assert receiver.heard == [(1, 6), (2, 11), (3, 16)]


def test_the_trace_tells_of_every_fault() -> None:
    *_, trace = ticking("pause 2 @ 8 for 4", "crash 2 @ 15", "restart 2 @ 25")
    kinds = Crashed, Delivered, Dropped, Paused, Resumed, Started
    assert [record for record in trace.records if isinstance(record, kinds)] == [
        Started(0, 1),
        Started(0, 2),
        Paused(8, 2),
        Resumed(12, 2),
        Delivered(12, 1, 1, 2),
        Crashed(15, 2),
        Dropped(21, 2, 1, 2, "receiver down"),
        Started(25, 2),
        Delivered(31, 3, 1, 2),
    ]


def test_a_user_who_crashes_while_waiting_asks_again_without_memory() -> None:
    result = Simulation(
        [Server(1), Server(2), Server(3)],
        workload=Burst(1, [2, 3], hold=10),
        faults=[Crash(3, 5), Restart(3, 6)],
    ).run()
    assert (result.entries, result.unserved, result.violations) == (2, 0, [])


def test_a_user_who_crashes_inside_and_comes_back_with_memory_is_inside_again() -> None:
    lone, rival = Careless(1), Careless(2)
    faults: list[Fault] = [Crash(1, 5), Restart(1, 7, memory=True)]
    result = Simulation([lone, rival], workload=Script(((0, 1), (6, 2)), hold=20), faults=faults)
    (violation,) = result.run().violations
    assert (violation.name, violation.time) == ("safety", 7)


@pytest.mark.parametrize("memory", [True, False])
def test_a_request_made_while_down_is_made_on_return_and_the_run_waits_for_it(memory: bool) -> None:
    result = Simulation(
        [Careless(1), Careless(2)],
        workload=Script(((8, 2),)),
        faults=[Crash(2, 5), Restart(2, 50, memory)],
    ).run()
    assert (result.entries, result.time) == (1, 50)


def test_a_stay_that_a_crash_has_ended_does_not_end_a_later_one() -> None:
    workload = Script(((0, 1), (7, 1), (22, 2)), hold=20)
    faults: list[Fault] = [Crash(1, 5), Restart(1, 6)]
    result = Simulation([Careless(1), Careless(2)], workload=workload, faults=faults).run()
    (violation,) = result.violations
    assert (violation.name, violation.time) == ("safety", 22)  # 1 is inside from 7 to 27


def test_a_user_who_crashed_inside_is_not_inside() -> None:
    workload = Script(((0, 1), (6, 2)), hold=20)
    result = Simulation([Careless(1), Careless(2)], workload=workload, faults=[Crash(1, 5)]).run()
    assert (result.entries, result.violations, result.time) == (2, [], 26)


def test_after_a_crash_inside_a_closed_loop_goes_on() -> None:
    workload = Closed(3, [2], hold=10)
    result = Simulation(
        [Server(1), Server(2)], workload=workload, faults=[Crash(2, 5), Restart(2, 7)], max_time=500
    ).run()
    assert result.entries == 1  # the server still thinks that 2 is inside
    assert [violation.name for violation in result.violations] == ["stuck"]


def test_random_faults_are_as_many_as_asked_for_and_end_in_time() -> None:
    faults = random_faults(3, 5, duration=50, crashes=2, pauses=3, partitions=4, drift=0.1)
    kinds = [type(fault).__name__ for fault in faults]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "Crash": 2,
        "Restart": 2,
        "Pause": 3,
        "Partition": 4,
        "Drift": 5,
    }
    for fault in faults:
        if isinstance(fault, Crash | Restart):
            assert 0 <= fault.time <= 50
        elif isinstance(fault, Pause | Partition):
            assert 0 <= fault.time + (fault.duration or 0) <= 50
        elif isinstance(fault, Drift):
            assert 0.9 <= fault.rate <= 1.1


def test_random_faults_follow_from_their_seed() -> None:
    draws = [random_faults(seed, 5, duration=50, crashes=2, partitions=1) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("seed", range(30))
def test_runs_under_random_faults_never_break_the_simulator(seed: int) -> None:
    """A server that forgets may break its promises, which is a verdict; but no step is impossible."""
    faults = random_faults(seed, 4, duration=30, crashes=3, pauses=3, partitions=2, drift=0.2)
    results = [
        Simulation(
            [Server(me, newest_first=False) for me in range(1, 5)],
            workload=Closed(5, [2, 3, 4], hold=1, think=2),
            network=Network(Uniform(0.5, 1.5), loss=0.01),
            faults=faults,
            seed=seed,
            max_time=300,
        ).run()
        for _ in range(2)
    ]
    assert results[0] == results[1]
    for violation in results[0].violations:
        assert violation.name in {"safety", "stuck", "raised"}
        assert violation.name != "raised" or "user who is not waiting" in violation.text


class Listener(Process[Note]):
    """Process 1 tells all others at once; each keeps what its clock showed when it heard."""

    heard: list[float] = []

    def start(self, out: Outbox[Note]) -> None:
        if self.me == 1:
            out.broadcast((2, 3, 4), Note(1))

    def receive(self, sender: int, message: Note, out: Outbox[Note]) -> None:
        self.heard.append(out.now)


def test_one_drifting_clock_is_that_of_its_process_alone() -> None:
    """The message reaches all three in one event, the drifting one before another."""
    processes = [Listener(me) for me in (1, 2, 3, 4)]
    Simulation(processes, faults=[Drift(3, 2.0, 100.0)]).run()
    assert [process.heard for process in processes] == [[], [1.0], [102.0], [1.0]]
