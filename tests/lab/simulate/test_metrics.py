"""What a run cost, on an algorithm whose costs are known exactly."""

from __future__ import annotations

import msgspec
import pytest

from coterie.lab.simulate import (
    Closed,
    Constant,
    Crash,
    HandOver,
    Latency,
    Network,
    OneAtATime,
    Pause,
    Poisson,
    Result,
    Simulation,
    Summary,
    Uniform,
    Workload,
)
from coterie.lab.simulate.metrics import jain_index, load_of, summarise
from coterie.process import encode
from tests.harness import build
from tests.lab.simulate.toys import Note, Postman, Script, Server

SIZES = [2, 3, 7, 13]


def run(size: int, workload: Workload, latency: float = 1.0) -> Result:
    return Simulation(
        build("ricart-agrawala", size), workload=workload, network=Network(Constant(latency))
    ).run()


@pytest.mark.parametrize("size", SIZES)
def test_an_idle_entry_costs_exactly_what_theory_says(size: int) -> None:
    result = run(size, OneAtATime(3 * size, repeat=2))
    assert result.messages_per_entry == 2 * (size - 1)
    assert result.messages_per_entry_afresh == 2 * (size - 1)
    assert result.messages_per_entry_again == 2 * (size - 1)
    assert result.client_delay == Summary(3 * size, 2, 2, 2, 2, 2)
    assert result.synchronisation_delay is None


@pytest.mark.parametrize("size", SIZES)
def test_a_contended_entry_costs_the_same(size: int) -> None:
    result = run(size, Closed(5))
    assert result.entries == 5 * size
    assert result.messages_per_entry == 2 * (size - 1)
    assert result.messages_per_entry_afresh is None
    assert result.messages_by_kind == {
        "Reply": result.messages // 2,
        "Request": result.messages // 2,
    }


@pytest.mark.parametrize("size", SIZES)
def test_handing_over_takes_one_message(size: int) -> None:
    pairs = [(one, one % size + 1) for one in range(1, size + 1)]
    result = run(size, HandOver(pairs))
    assert result.synchronisation_delay == Summary(size, 1, 1, 1, 1, 1)


def test_delays_are_in_virtual_time() -> None:
    result = run(3, OneAtATime(6), latency=2.5)
    assert result.client_delay == Summary(6, 5, 5, 5, 5, 5)
    assert (result.time, result.messages_per_time) == (30, 24 / 30)


def test_the_lecture_example_takes_8_messages_for_two_entries() -> None:
    """Two of three ask, the older first; the third answers both; hand-over takes one message."""
    result = run(3, Script(((0, 1), (0.5, 3)), hold=10))
    assert (result.entries, result.messages) == (2, 8)
    assert result.synchronisation_delay == Summary(1, 1, 1, 1, 1, 1)
    assert result.client_delay is None  # the section was free, but another one asked meanwhile


def test_every_process_carries_the_same_load() -> None:
    result = run(5, Closed(4))
    assert (result.load.mean, result.load.max) == (2 * result.messages / 5, 2 * result.messages / 5)


def test_a_message_to_a_dead_process_counts_as_sent_and_not_as_received() -> None:
    result = Simulation([Postman(1, 3), Postman(2)], faults=[Crash(2, 0.5)]).run()
    assert (result.messages, result.load.max, result.load.busiest) == (3, 3, 1)
    assert result.load.mean == 1.5


def test_mail_counts_as_received_once() -> None:
    result = Simulation([Postman(1, 3), Postman(2)], faults=[Pause(2, 0.5, 9)]).run()
    assert (result.load.mean, result.load.max) == (3, 3)


def test_a_message_to_oneself_is_free() -> None:
    result = Simulation(build("centralized", 3), workload=OneAtATime(4, [1])).run()
    assert (result.entries, result.messages) == (4, 0)
    assert result.messages_per_entry_again == 0


def test_bytes_are_those_of_the_wire_and_measured_on_demand() -> None:
    assert Simulation([Postman(1, 3), Postman(2)]).run().bytes is None
    result = Simulation([Postman(1, 3), Postman(2)], measure_bytes=True).run()
    assert result.bytes == sum(len(encode(Note(number))) for number in (1, 2, 3))


def test_fairness_counts_by_how_many_later_requests_one_was_overtaken() -> None:
    asks = ((0.0, 2), (3.0, 3), (4.0, 4), (5.0, 5))
    for newest_first, overtaken in ((True, 2), (False, 0)):
        servers = [Server(me, newest_first) for me in range(1, 6)]
        result = Simulation(servers, workload=Script(asks, hold=10)).run()
        assert result.fairness.overtaken_max == overtaken


def test_who_still_waits_has_been_overtaken_too() -> None:
    servers = [Server(me) for me in range(1, 5)]
    result = Simulation(servers, workload=Closed(1000, [2, 3, 4], hold=3), until=500).run()
    assert result.fairness.overtaken_max > 10
    assert result.fairness.jain is not None
    assert result.fairness.jain < 0.9


def test_jain_index() -> None:
    assert jain_index([3, 3, 3]) == 1
    assert jain_index([6, 0, 0]) == pytest.approx(1 / 3)
    assert jain_index([]) is None
    assert jain_index([0, 0]) is None


def test_summaries_take_percentiles_by_nearest_rank() -> None:
    assert summarise([]) is None
    assert summarise([3, 1, 2]) == Summary(3, 1, 2, 2, 3, 3)
    assert summarise([float(value) for value in range(1, 101)]) == Summary(
        100, 1, 50.5, 50, 99, 100
    )


def test_the_load_of_the_busiest() -> None:
    load = load_of([0, 1, 5, 2], [0, 2, 4, 0])
    assert (load.mean, load.max, load.busiest) == (14 / 3, 9, 2)


def test_waiting_is_measured_for_every_entry() -> None:
    result = run(4, Poisson(0.05, 400, hold=5))
    assert result.waiting is not None
    assert result.waiting.count == result.entries
    assert 2 <= result.waiting.min <= result.waiting.p50 <= result.waiting.p99 <= result.waiting.max


def test_a_result_is_json() -> None:
    facts = msgspec.json.decode(msgspec.json.encode(run(3, Closed(2))))
    assert (facts["entries"], facts["messages"], facts["unserved"]) == (6, 24, 0)
    assert facts["violations"] == []
    assert facts["stopped"] == "done"


@pytest.mark.parametrize("latency", [Constant(1), Uniform(0.5, 1.5)])
@pytest.mark.parametrize("loss", [0.0, 1e-9])
@pytest.mark.parametrize("watched", [False, True])
def test_with_multicast_a_message_to_several_is_sent_once_and_received_by_each(
    latency: Latency, loss: float, watched: bool
) -> None:
    """It changes nothing of what happens, however messages are carried."""

    def run(*, multicast: bool) -> Result:
        return Simulation(
            build("ricart-agrawala", 4),
            workload=OneAtATime(8),
            network=Network(latency, loss=loss, multicast=multicast),
            measure_bytes=True,
            seed=3,
            order="count" if watched else "ignore",
        ).run()

    plain, copied = run(multicast=False), run(multicast=True)
    assert copied.messages_by_kind["Request"] * 3 == plain.messages_by_kind["Request"]
    assert copied.messages_by_kind["Reply"] == plain.messages_by_kind["Reply"]
    saved = plain.messages - copied.messages
    assert 4 * plain.load.mean - 4 * copied.load.mean == saved > 0
    assert (copied.time, copied.entries, copied.waiting) == (
        plain.time,
        plain.entries,
        plain.waiting,
    )
    assert plain.bytes is not None
    assert copied.bytes is not None
    assert copied.bytes < plain.bytes
