"""What the workflow runs is what was looked at: actions by commit, the tools that build by hash."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TOOLS = ROOT / ".ci" / "build-tools.txt"


def test_actions_are_named_by_their_commit_and_the_version_beside_it() -> None:
    used = [
        line.strip()
        for path in WORKFLOWS
        for line in path.read_text(encoding="utf-8").splitlines()
        if "uses:" in line
    ]
    assert used
    for line in used:
        assert re.fullmatch(r"- uses: [\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line), line
    commits = {line.partition("uses: ")[2] for line in used}
    assert len(commits) == len({each.partition("@")[0] for each in commits}), "one version of each"


def test_what_builds_the_package_is_installed_by_hash() -> None:
    lines = [
        line for line in TOOLS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    assert {line.partition("==")[0] for line in lines} >= {"build", "hatchling"}
    for line in lines:
        assert re.fullmatch(r"[a-z-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}", line), line
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    assert f"--require-hashes -r {TOOLS.relative_to(ROOT)}" in text
    builds = re.findall(r"python -m build.*", text)
    assert builds
    assert all("--no-isolation" in line for line in builds), (
        "an isolated build fetches its own tools"
    )


def test_the_workflow_may_only_read() -> None:
    for path in WORKFLOWS:
        assert re.search(
            r"^permissions:\n  contents: read\n", path.read_text(encoding="utf-8"), re.MULTILINE
        )
