"""The alert rules fire when they should, asked of Prometheus's own tool where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

RULES = Path(__file__).parent.parent / "docs" / "deploy" / "alerts.yml"
PROMTOOL = shutil.which("promtool")
NODES = ("a", "b", "c")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(PROMTOOL is None, reason="no promtool: apt install prometheus"),
]


def series(up: dict[str, int], abstains: dict[str, float]) -> str:
    lines = [
        *(f"""up{{job="coterie", instance="{node}"}}: {value}""" for node, value in up.items()),
        *(
            f"""coterie_voter_abstains_seconds{{job="coterie", instance="{node}"}}: {value}"""
            for node, value in abstains.items()
        ),
    ]
    return "".join(
        f"      - series: '{name}'\n        values: '{value}x10'\n"
        for name, _, value in (each.rpartition(": ") for each in lines)
    )


def fires(folder: Path, alert: str, measured: str) -> bool:
    """Ask whether an alert fires after five minutes of these values."""
    assert PROMTOOL is not None
    plan = folder / "plan.yml"
    plan.write_text(
        f"rule_files: ['{RULES}']\ntests:\n  - interval: 1m\n    input_series:\n{measured}"
        f"    alert_rule_test:\n      - eval_time: 5m\n        alertname: {alert}\n"
        "        exp_alerts: []\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(plan)], capture_output=True, text=True, check=False
    )
    told = done.stdout + done.stderr
    assert (done.returncode == 0) != ("got:" in told), told
    return done.returncode != 0


@pytest.mark.parametrize(
    ("up", "abstains", "fired"),
    [
        (dict.fromkeys(NODES, 1), dict.fromkeys(NODES, 0.0), False),
        (dict.fromkeys(NODES, 1), {"a": 0.0, "b": 0.0, "c": 9.0}, False),
        (dict.fromkeys(NODES, 1), {"a": 0.0, "b": 9.0, "c": 9.0}, True),
        (dict.fromkeys(NODES, 1), dict.fromkeys(NODES, 9.0), True),
        (dict.fromkeys(NODES, 0), {}, True),
    ],
    ids=["all vote", "two vote", "one votes", "none votes", "all are down"],
)
def test_a_lost_quorum_is_noticed_in_the_worst_case_too(
    tmp_path: Path, up: dict[str, int], abstains: dict[str, float], fired: bool
) -> None:
    assert fires(tmp_path, "CoterieNoQuorum", series(up, abstains)) is fired


def test_a_node_that_is_down_is_noticed(tmp_path: Path) -> None:
    up = {"a": 1, "b": 1, "c": 0}
    assert fires(tmp_path, "CoterieNodeDown", series(up, {}))
    assert not fires(tmp_path, "CoterieNodeDown", series(dict.fromkeys(NODES, 1), {}))


@pytest.mark.parametrize(("every", "fired"), [(60, True), (200, False)])
def test_a_job_whose_last_success_is_long_ago_is_noticed(
    tmp_path: Path, every: int, fired: bool
) -> None:
    """After five minutes of a clock that begins at 0: one program has come in vain, the other has run the job then."""

    def measured(family: str, *successes: int) -> str:
        lines = [f"{family}_every_seconds{{name='nightly', instance='a'}}: {every}"]
        lines += [
            f"{family}_last_success_seconds{{name='nightly', instance='{instance}'}}: {success}"
            for instance, success in zip("ab", successes, strict=False)
        ]
        return "".join(
            f"""      - series: "{name}"\n        values: '{value}x10'\n"""
            for name, _, value in (each.rpartition(": ") for each in lines)
        )

    assert fires(tmp_path, "CoterieJobOverdue", measured("coterie_once", 0)) is fired
    alert = "CoterieJobOverdueForPrograms"
    assert fires(tmp_path, alert, measured("coterie_job", 0, 0)) is fired
    assert not fires(tmp_path, alert, measured("coterie_job", 0, 299))


def test_the_rules_are_those_of_prometheus() -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "check", "rules", str(RULES)], check=False)
    assert done.returncode == 0
