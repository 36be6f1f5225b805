from __future__ import annotations

from coterie.diagram.lifelines import LaneCondition, Stay, history
from coterie.lab.scenario import perform
from coterie.trace import AnyRecord, Called, Crashed, Header, Paused, Resumed, Started, Told, Trace

HEADER = Header(algorithm="ricart-agrawala", size=2)


def test_waiting_lasts_from_the_call_to_the_entry_and_the_stay_inside_until_the_release() -> None:
    trace = perform("ricart-agrawala 2\nacquire 1\nrun\nrelease 1\nacquire 2\n").trace
    assert history(trace, 9.0).stays == [
        Stay(1, LaneCondition.WAITING, 1, 3),
        Stay(1, LaneCondition.INSIDE, 3, 4),
        Stay(2, LaneCondition.WAITING, 5, 9.0),
    ]


def test_a_lock_that_is_acquired_with_a_token_is_a_stay_inside() -> None:
    trace = perform("leased 1\nacquire 1\nrun\n").trace
    assert LaneCondition.INSIDE in {stay.condition for stay in history(trace, 9.0).stays}


def test_a_restart_with_memory_resumes_the_stay_and_one_without_forgets_it() -> None:
    inside: list[AnyRecord] = [
        Called(1, 1, "acquire"),
        Told(2, 1, ["Entered"], "Entered"),
        Crashed(3, 1),
    ]
    before = [
        Stay(1, LaneCondition.WAITING, 1, 2),
        Stay(1, LaneCondition.INSIDE, 2, 3),
        Stay(1, LaneCondition.DOWN, 3, 5),
    ]
    forgets = Trace(HEADER, [*inside, Started(5, 1)])
    assert history(forgets, 8).stays == before
    resumes = Trace(HEADER, [*inside, Started(5, 1, amnesia=False)])
    assert history(resumes, 8).stays == [*before, Stay(1, LaneCondition.INSIDE, 5, 8)]


def test_a_pause_runs_beside_other_stays() -> None:
    trace = Trace(HEADER, [Called(1, 1, "acquire"), Paused(2, 1), Resumed(3, 1)])
    assert history(trace, 4).stays == [
        Stay(1, LaneCondition.WAITING, 1, 4),
        Stay(1, LaneCondition.PAUSED, 2, 3),
    ]


def test_messages_arrive_repeatedly_or_are_lost_or_stay_on_their_way() -> None:
    trace = perform("ricart-agrawala 4\nacquire 1\nrepeat 1 > 2\ndeliver 1 > 2\ndrop 1 > 3\n").trace
    flights = history(trace).flights
    assert (flights[1].begin, flights[1].arrivals, flights[1].lost) == (1, [2, 3], None)
    assert (flights[2].arrivals, flights[2].lost, flights[2].reason) == ([], 4, "dropped")
    assert (flights[3].arrivals, flights[3].lost) == ([], None)
    assert history(trace).kinds() == ["Request", "Reply"]


def test_a_trace_without_records_has_an_empty_history() -> None:
    assert history(Trace(HEADER)).stays == []
