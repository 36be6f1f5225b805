"""The verdict: what the ledger shows, and whether the workers' reports agree with it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.cli.demo.ledger import Entry
    from coterie.cli.demo.state import DemoState, Phase

FIRST_PHASE = 2  # before it nodes and workers start


class Passage(NamedTuple):
    """A phase, and how the entries went on in it."""

    title: str
    entries: int
    longest_gap: float  # in seconds, between entries of which the later one is in this phase


class Finding(NamedTuple):
    """A claim, whether it holds, and what shows it."""

    holds: bool
    claim: str
    evidence: str


class Verdict(NamedTuple):
    """The result of a demonstration."""

    passages: list[Passage]
    findings: list[Finding]

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(finding.holds for finding in self.findings)


def judge(state: DemoState, entries: Sequence[Entry], last_words: Callable[[str], str]) -> Verdict:
    """Judge a demonstration that is over; `last_words` returns a process's last line of stderr."""
    passages = divide(state.phases, entries)[FIRST_PHASE:]
    reported = [token for worker in state.workers for token in worker.written]
    findings = [
        never_stuck(passages),
        growing(entries),
        nothing_lost(entries, reported),
        _fenced(state),
        _alive(state, last_words),
    ]
    return Verdict(passages, findings)


def divide(phases: Sequence[Phase], entries: Sequence[Entry]) -> list[Passage]:
    """Return for each phase its number of entries and the longest gap before one of them."""
    ends = [phase.began_at for phase in phases[1:]] + [float("inf")]
    gaps = [(later, later.written_at - entry.written_at) for entry, later in pairwise(entries)]
    passages = []
    for phase, end in zip(phases, ends, strict=True):
        count = sum(phase.began_at <= entry.written_at < end for entry in entries)
        within = [gap for later, gap in gaps if phase.began_at <= later.written_at < end]
        passages.append(Passage(phase.title, count, max(within, default=0.0)))
    return passages


def never_stuck(passages: Sequence[Passage]) -> Finding:
    """Check that a worker entered in every phase."""
    claim = "never stuck"
    for passage in passages:
        if not passage.entries:
            return Finding(False, claim, f"no worker entered after: {passage.title}")
    longest = max(passages, key=lambda passage: passage.longest_gap)
    evidence = f"longest gap between entries {longest.longest_gap:.2f} s: {longest.title}"
    return Finding(True, claim, evidence)


def growing(entries: Sequence[Entry]) -> Finding:
    """Check that each entry has a larger token than the one before it."""
    claim = "tokens strictly grow"
    for before, after in pairwise(entries):
        if before.token >= after.token:
            evidence = f"{after.worker} wrote with {after.token} after {before.token}"
            return Finding(False, claim, evidence)
    span = f"from {entries[0].token} to {entries[-1].token}" if entries else "no entry"
    return Finding(bool(entries), claim, span)


def nothing_lost(entries: Sequence[Entry], reported: Sequence[int]) -> Finding:
    """Check that every entry counts: none is missing, none was overwritten.

    Two workers inside at the same time would read the same number and write the same number.
    """
    claim = "nothing lost"
    for number, entry in enumerate(entries, 1):
        if entry.number != number:
            evidence = f"{entry.worker} wrote number {entry.number} where {number} was expected"
            return Finding(False, claim, evidence)
    agree = sorted(reported) == sorted(entry.token for entry in entries)
    evidence = f"{len(reported):,} entries reported, {len(entries):,} lines in the file"
    return Finding(agree and bool(entries), claim, evidence)


def _fenced(state: DemoState) -> Finding:
    refused = [(worker.name, token) for worker in state.workers for token in worker.refused]
    if not refused:
        return Finding(False, "late write refused", "no write came too late")
    name, token = refused[-1]
    evidence = (
        f"writes refused by the fence: {len(refused)}; the last from {name} with token {token}"
    )
    return Finding(True, "late write refused", evidence)


def _alive(state: DemoState, last_words: Callable[[str], str]) -> Finding:
    dead = [node.name for node in state.nodes if node.condition == "dead"]
    failed = [worker.name for worker in state.workers if worker.process.returncode != 0]
    evidence = f"dead nodes: {', '.join(dead)}; failed workers: {', '.join(failed) or 'none'}"
    for name in [*dead[1:], *failed][:1]:
        evidence += f"; {name}: {last_words(name)}"
    return Finding(len(dead) == 1 and not failed, "no other process failed", evidence)
