"""Random crashes and returns under the fault-tolerant algorithm, by the thousand.

    python -m benchmarks.fault_tolerant_campaign 12000 --jobs 2 --chart outages.svg

draws for each seed a size from 3 to 13, a coterie (the planes of 7 and 13 among them), bounds of time
that are tight or not, and up to N - 1 crashes, one in three in the middle of a broadcast, two in
three followed by a return; then the same for the planes of 7 and 13 alone; then everybody crashes and
returns, up to four times. It prints what failed and how long users were kept out.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from coterie.cli.lab.campaign import outage_chart
from coterie.lab.simulate import Report, campaign
from tests.algorithms.mutex.fault_tolerant_trials import Trials


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--chart", type=Path)
    chosen = parser.parse_args()
    groups = {
        "any coterie of 3 to 13": Trials(),
        "plane of 7": Trials(size=7, coterie="plane"),
        "plane of 13": Trials(size=13, coterie="plane"),
        "aimed crashes": Trials(kind="aimed"),
        "everybody crashes and returns": Trials(kind="churn"),
    }
    reports: dict[str, Report] = {}
    with ProcessPoolExecutor(chosen.jobs) as executor:
        for name, trials in groups.items():
            report = campaign(trials, range(chosen.seeds), executor=executor)
            reports[name] = report
            print(
                f"{name}: {report.runs:,} runs, {len(report.failures)} failed,"
                f" {len(report.outages):,} crashes, {report.entries:,} entries,"
                f" {report.late} late messages",
                f"  kept out after a crash: {report.outage}",
                *report.failures[:5],
                sep="\n",
                flush=True,
            )
    if chosen.chart:
        chosen.chart.write_text(outage_chart(reports), encoding="utf-8")
    return 1 if any(report.failures for report in reports.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
