"""What the workflow runs is what was looked at: actions by commit, the tools that build by hash."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DOCKERFILE = ROOT / "docs" / "deploy" / "Dockerfile"
PINNED = DOCKERFILE.parent / "requirements.txt"
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


def test_workflows_install_and_build_by_make_alone() -> None:
    """So that what they do can be done, and was done, on a machine of ours."""
    for path in WORKFLOWS:
        runs = re.findall(r"- run: (.*)", path.read_text(encoding="utf-8"))
        assert not [line for line in runs if "-m build" in line or "pip install -r" in line], path


def test_the_image_is_built_from_a_base_of_known_content_and_of_what_was_pinned() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    bases = re.findall(r"^FROM (.*)$", text, re.MULTILINE)
    assert bases
    for base in bases:
        assert re.fullmatch(r"python:[\d.]+-slim-[a-z]+@sha256:[0-9a-f]{64}", base), base
    installs = re.findall(r"pip install ([^&]*)", text)
    assert installs
    for each in installs:
        assert "--require-hashes" in each or "--no-deps --no-build-isolation /src" in each, each
    named = {ROOT / file for file in re.findall(r"-r /src/(\S+)", text)}
    assert named == {TOOLS, PINNED}
    pinned = re.findall(r"^([\w-]+==[\d.]+)", PINNED.read_text(encoding="utf-8"), re.MULTILINE)
    everywhere = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert {each.partition("==")[0] for each in pinned} == {"click", "msgspec", "uvloop"}
    assert all(f"\n{each}" in everywhere for each in pinned), "the versions that the tests run with"


def test_only_jobs_that_publish_may_write() -> None:
    for path in WORKFLOWS:
        assert re.search(
            r"^permissions:\n  contents: read\n", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        jobs = re.split(r"^  (?=\w+:$)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        writing = {each.partition(":")[0] for each in jobs if ": write" in each}
        assert writing == ({"publish", "image", "site"} if path.stem == "release" else set())
