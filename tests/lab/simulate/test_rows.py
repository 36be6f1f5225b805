"""One row per seed with all that its run reports, and what they come to together."""

from __future__ import annotations

import csv
import io
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.errors import UsageError
from coterie.lab.simulate import (
    Burst,
    Interval,
    LogNormal,
    Report,
    Trial,
    TrialBuilder,
    Uniform,
    campaign,
    run_trial,
    to_csv,
    to_dicts,
    totals,
)
from coterie.lab.simulate.trial_builder import ANY_NUMBER
from tests.lab.simulate.toys import Careless

if TYPE_CHECKING:
    from collections.abc import Callable

PLAN = TrialBuilder(algorithm="maekawa", size=7, hold=1.0, latency=Uniform(0.5, 1.5), entries=3)


def test_a_row_has_all_that_the_run_reports() -> None:
    result = run_trial(PLAN(4), 4)
    row = result.to_dict()
    assert row["seed"] == 4
    assert (row["entries"], row["messages"]) == (21, result.messages)
    assert sum(row[f"messages_kind_{kind}"] for kind in result.messages_by_kind) == result.messages
    assert result.waiting is not None
    assert (row["waiting_mean"], row["waiting_p99"]) == (result.waiting.mean, result.waiting.p99)
    assert row["load_busiest"] == result.load.busiest
    assert row["fairness_jain"] == result.fairness.jain
    assert row["violation"] is None
    # Nothing is left out: each field is a column, or the beginning of some.
    shortened = {
        "violations": "violation",
        "outages": "outage",
        "messages_by_kind": "messages_kind",
    }
    for name in result.__struct_fields__:
        if name not in ("facts", "trace"):
            assert any(column.startswith(shortened.get(name, name)) for column in row), name


def test_a_row_is_flat_and_what_was_not_measured_is_none() -> None:
    row = run_trial(PLAN(1), 1).to_dict()
    assert all(value is None or isinstance(value, (int, float, str)) for value in row.values())
    assert row["client_delay_mean"] is None
    assert row["client_delay_p99"] is None


def test_what_processes_tell_of_themselves_is_in_the_row() -> None:
    plan = TrialBuilder(algorithm="fault-tolerant", size=3, entries=1)
    row = run_trial(plan(1), 1).to_dict()
    assert row["fact_coterie"].startswith("[[")


def test_a_campaign_has_the_row_of_each_seed_in_order() -> None:
    report = campaign(PLAN, range(10, 20))
    assert [row["seed"] for row in report.to_dicts()] == list(range(10, 20))
    alone = run_trial(PLAN(13), 13).to_dict()
    assert {name: report.to_dicts()[3][name] for name in alone} == alone


def test_rows_have_the_same_columns_and_a_kind_that_was_not_sent_counts_nothing() -> None:
    rows = campaign(PLAN, range(10)).to_dicts()
    assert len({tuple(row) for row in rows}) == 1
    assert {row["messages_kind_Inquire"] for row in rows} >= {0}
    assert any(row["messages_kind_Inquire"] for row in rows)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_rows_and_totals_are_the_same_bytes_on_any_executor(pool: Callable[[int], Any]) -> None:
    here = campaign(PLAN, range(60))
    with pool(2) as executor:
        there = campaign(PLAN, range(60), executor=executor)
    assert to_csv(there.to_dicts()) == to_csv(here.to_dicts())
    assert msgspec.json.encode(there.totals()) == msgspec.json.encode(here.totals())


def test_totals_are_means_over_seeds_with_their_intervals() -> None:
    report = campaign(PLAN, range(30))
    found = report.totals()["waiting_mean"]
    means = [result.waiting.mean for result in report.results if result.waiting]
    assert found.mean == pytest.approx(sum(means) / 30)
    assert (found.count, found.min, found.max) == (30, min(means), max(means))
    assert found.half_width is not None
    assert 0 < found.half_width < found.max - found.min
    wider = report.totals(confidence=0.99)["waiting_mean"].half_width
    assert wider is not None
    assert wider > found.half_width
    assert "seed" not in report.totals()
    assert "load_busiest" not in report.totals()


def test_what_never_varies_has_an_interval_of_nothing() -> None:
    assert campaign(PLAN, range(5)).totals()["entries"] == Interval(5, 21.0, 0.0, 0.0, 21, 21)


def test_a_campaign_without_results_has_its_sums() -> None:
    report = campaign(PLAN, range(5), keep=False)
    assert report.results == []
    assert (report.runs, report.entries) == (5, 105)
    assert report.totals() == {}


def test_runs_that_were_cut_short_are_no_part_of_the_totals() -> None:
    def clash_on_odd_seeds(seed: int) -> Trial:
        requesters = [1, 2] if seed % 2 else [1]
        return Trial([Careless(1), Careless(2)], Burst(requesters=requesters, hold=1.0))

    report = campaign(clash_on_odd_seeds, range(10))
    assert [row["violation"] is None for row in report.to_dicts()] == [True, False] * 5
    assert report.totals()["entries"].count == 5


def test_a_report_is_short_in_a_program_and_a_table_in_a_notebook() -> None:
    report = campaign(PLAN, range(3))
    assert repr(report) == "<Report: 3 runs, 0 failed, 63 entries>"
    text = report._repr_html_()
    assert "<td>entries</td><td>21</td><td>0</td>" in text
    assert "<caption>3 runs, 0 failed</caption>" in text


def test_csv_reads_back() -> None:
    rows = campaign(PLAN, range(3)).to_dicts()
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert list(read[0]) == list(rows[0])
    assert [float(row["waiting_mean"]) for row in read] == [row["waiting_mean"] for row in rows]
    assert read[0]["client_delay_mean"] == ""


def test_nothing_has_no_rows() -> None:
    assert Report().to_dicts() == []
    assert Report().totals() == {}
    assert to_csv([]) == "\n"
    assert totals(to_dicts([])) == {}


def test_a_data_frame_takes_the_rows() -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame(campaign(PLAN, range(5)).to_dicts())
    assert list(frame["seed"]) == [0, 1, 2, 3, 4]
    assert frame["messages_per_entry"].dtype == float


def test_the_columns_are_what_a_data_frame_takes() -> None:
    """Each column has values of one type, beside None: so a frame keeps numbers as numbers."""
    rows = campaign(PLAN, range(5)).to_dicts()
    for name in rows[0]:
        kinds = {type(row[name]) for row in rows} - {type(None)}
        assert len(kinds) <= 1, name


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workload": "sometimes"}, "unknown workload: 'sometimes'"),
        ({"rate": 0.0}, "the rate must be positive, got 0"),
        ({"variant": "lazy"}, "unknown variant of maekawa: 'lazy'"),
        ({"random_faults": 7, "algorithm": "fault-tolerant"}, "0 to 4 may crash, got 7"),
    ],
)
def test_a_plan_says_what_is_wrong_with_it(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        TrialBuilder(**{"algorithm": "maekawa", **options})(1)


def test_users_of_a_variant_that_fails_stay_inside_so_that_it_is_noticed() -> None:
    assert TrialBuilder(algorithm="suzuki-kasami")(1).workload.hold == 0
    assert TrialBuilder(algorithm="suzuki-kasami", variant="survey")(1).workload.hold == 1
    assert TrialBuilder(algorithm="suzuki-kasami", variant="survey", hold=0.0)(1).workload.hold == 0


def test_a_plan_draws_its_faults_from_the_seed() -> None:
    plan = TrialBuilder(
        algorithm="fault-tolerant", random_faults=ANY_NUMBER, latency=LogNormal(1, 0.1)
    )
    assert plan(3).faults == plan(3).faults
    assert len({len(plan(seed).faults) for seed in range(10)}) > 1
