from __future__ import annotations

import os
from pathlib import Path

import pytest

from coterie.catalogue import find
from coterie.errors import UsageError
from coterie.lab.scenario import from_trace, perform
from coterie.process import Channel
from coterie.trace import Crashed, Dropped, Paused, Sent, Trace, Violated

SCENARIOS = sorted(Path(__file__).parents[2].glob("scenarios/*.txt"))

PLAIN = """\
ricart-agrawala 2
acquire 1
  1 > 2  Request(1.1)
deliver 1 > 2
  2 > 1  Reply
deliver 2 > 1
  1 Entered
"""


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_recorded_scenario_comes_out_as_recorded(path: Path) -> None:
    recorded = path.read_text(encoding="utf-8")
    transcript = perform(recorded).transcript
    if os.environ.get("REWRITE") and transcript != recorded:
        path.write_text(transcript, encoding="utf-8")
        return
    assert recorded == transcript


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_trace_of_a_scenario_leads_through_it_again(path: Path) -> None:
    trace = perform(path.read_text(encoding="utf-8")).trace
    again = perform(from_trace(trace)).trace
    assert again.records == trace.records
    assert again.header == trace.header


def test_what_a_command_caused_is_written_anew() -> None:
    stale = PLAIN.replace("Reply", "Refusal").replace("  1 Entered\n", "")
    assert perform(stale).transcript == PLAIN


def test_steps_are_numbered_as_times() -> None:
    trace = perform(PLAIN).trace
    assert [record.time for record in trace.records] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_the_comment_above_the_first_line_is_the_title() -> None:
    performance = perform("# Alone\nricart-agrawala 1\n\n# not this\nacquire 1\n")
    assert performance.trace.header.title == "Alone"
    assert performance.transcript.endswith("\n\n# not this\nacquire 1\n  1 Entered\n")


def test_a_kind_picks_a_message_out_of_order_where_links_may_reorder() -> None:
    reordered = perform(
        "ricart-agrawala 2\nacquire 1\nrun\nacquire 2\nrun\nrelease 1\nacquire 1\n"
        "deliver 1 > 2 Request(3.1)\n"
    )
    assert reordered.transcript.endswith("deliver 1 > 2 Request(3.1)\n")


def test_a_link_that_keeps_the_order_refuses_to_reorder() -> None:
    script = "acquire 1\nrun\nacquire 2\nrun\nrelease 1\nacquire 1\ndeliver 1 > 2 Request\n"
    with pytest.raises(UsageError, match=r"line 8: .*keeps the order, and Reply comes first"):
        perform("ricart-agrawala 2 channel=fifo\n" + script)
    assert perform("ricart-agrawala 2 channel=unordered\n" + script)


def test_a_trace_that_reorders_names_the_weaker_channel_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "acquire 1\nrun\nacquire 2\nrun\nrelease 1\nacquire 1\ndeliver 1 > 2 Request\n"
    trace = perform("ricart-agrawala 2\n" + text).trace
    assert from_trace(trace).startswith("ricart-agrawala 2\n")
    monkeypatch.setattr(find("ricart-agrawala").process, "channel", Channel.FIFO)
    scenario = from_trace(trace)
    assert scenario.startswith("ricart-agrawala 2 channel=unordered\n")
    assert scenario.endswith("deliver 1 > 2 Request(3.1)\n")


def test_a_dropped_message_is_lost() -> None:
    performance = perform("ricart-agrawala 2\nacquire 1\ndrop 1 > 2\nshow\n")
    assert performance.transcript.splitlines()[3:] == [
        "drop 1 > 2",
        "  1 > 2  Request(1.1) is lost",
        "show",
        "  waiting: 1",
        "  on its way: nothing",
    ]
    assert performance.trace.records[-1] == Dropped(2, 1, 1, 2, "dropped")


def test_run_delivers_nothing_to_a_crashed_process() -> None:
    performance = perform("ricart-agrawala 3\ncrash 3\nacquire 1\nrun\nshow\n")
    assert performance.transcript.splitlines()[-4:] == [
        "show",
        "  waiting: 1",
        "  crashed: 3",
        "  on its way: 1 > 3  Request(1.1)",
    ]
    assert Crashed(1, 3) in performance.trace.records


def test_a_handler_that_raises_ends_the_scenario_with_a_violation() -> None:
    """A reply that the network repeats is one that nobody waits for."""
    text = "ricart-agrawala 3\nacquire 1\ndeliver 1 > 2\nrepeat 2 > 1\ndeliver 2 > 1\n"
    performance = perform(text)
    assert performance.transcript.endswith("deliver 2 > 1\n  ! KeyError: 2\n")
    assert performance.trace.records[-1] == Violated(4, "no failure", "KeyError: 2")
    assert from_trace(performance.trace).startswith(performance.transcript)
    with pytest.raises(UsageError, match="line 6: the scenario ended with a violation"):
        perform(text + "acquire 2\n")


def test_two_inside_together_are_a_violation() -> None:
    """A repeated request makes a second reply, which counts for the next request."""
    performance = perform(
        "ricart-agrawala 2\nacquire 1\nrepeat 1 > 2\ndeliver 1 > 2\ndeliver 2 > 1\nrelease 1\n"
        "acquire 2\ndeliver 2 > 1 Request\ndeliver 1 > 2\nacquire 1\ndeliver 2 > 1\n"
    )
    assert performance.transcript.endswith("  1 Entered\n  ! 1 and 2 are inside together\n")
    assert performance.trace.records[-1] == Violated(
        10, "mutual exclusion", "1 and 2 are inside together"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "an empty scenario"),
        ("# only words\n", "an empty scenario"),
        ("ricart-agrawala\n", "line 1: expected an algorithm and a size, such as"),
        ("ricart-agrawala many\n", "line 1: expected an algorithm and a size, such as"),
        ("ricart-agrawala 0\n", "line 1: the number of processes must be at least 1"),
        ("ricart-agrawalla 2\n", "line 1: unknown algorithm: .*did you mean 'ricart-agrawala'"),
        (
            "ricart-agrawala 2 plain\n",
            "line 1: expected name=value, such as 'variant=plain', got 'plain'",
        ),
        ("ricart-agrawala 2 variant=odd\n", "line 1: unknown variant of ricart-agrawala: 'odd'"),
        ("ricart-agrawala 2 depth=1\n", "line 1: unknown parameter of ricart-agrawala: 'depth'"),
        ("ricart-agrawala 2 channel=lossy\n", "line 1: unknown channel: 'lossy'; choose from"),
        ("ricart-agrawala 2\n\nleave 1\n", "line 3: cannot 'leave 1' here; possible: acquire 1,"),
        ("ricart-agrawala 2\nrelease 1\n", "line 2: cannot 'release 1' here"),
        ("ricart-agrawala 2\nacquire 3\n", "line 2: no process '3': they are 1 to 2"),
        (f"ricart-agrawala 2\nacquire {'1' * 5_000}\n", "line 2: no process '1111"),
        (f"ricart-agrawala 2\nring 1 {'1' * 5_000}\n", "line 2: cannot 'ring 1 1111"),
        ("ricart-agrawala 2\ndeliver 1 > 2\n", "line 2: cannot 'deliver 1 > 2' here"),
        ("ricart-agrawala 2\nacquire 1\ndeliver 1 > 2 Reply\n", "line 3: .*deliver 1 > 2, crash"),
        ("ricart-agrawala 2\nring 1 SILENCE\n", "line 2: cannot 'ring 1 SILENCE' here"),
        ("ricart-agrawala 2\njust words to see\n", "line 2: cannot 'just words to see' here"),
        ("ricart-agrawala 2\ncrash 2\nacquire 2\n", "line 3: cannot 'acquire 2' here"),
        (
            "ricart-agrawala 2\ncrash 2\nacquire 1\ndeliver 1 > 2\n",
            "line 4: process 2 has crashed",
        ),
    ],
)
def test_a_line_that_cannot_be_played_is_named_with_what_can_be(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        perform(text)


def test_a_run_with_pauses_has_no_scenario() -> None:
    trace = perform("ricart-agrawala 2\n").trace
    with pytest.raises(UsageError, match="no scenario for a run in which processes pause"):
        from_trace(Trace(trace.header, [*trace.records, Paused(1, 1)]))


def test_the_six_process_example_costs_twenty_messages_for_the_two_who_waited() -> None:
    path = next(path for path in SCENARIOS if path.stem == "ricart-agrawala-lecture-six")
    records = perform(path.read_text(encoding="utf-8")).trace.records
    assert sum(isinstance(record, Sent) for record in records) == 10 + 20
