"""What the ledger shows, and whether it agrees with what the workers report."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.cli.demo.ledger import Entry
    from coterie.cli.demo.stage import Act, Stage

FIRST_ACT = 2  # before it nodes and workers start


class Passage(NamedTuple):
    """An act, and how the entries went on in it."""

    title: str
    entries: int
    longest_gap: float  # in seconds, between entries of which the later one is in this act


class Finding(NamedTuple):
    """A claim, whether it holds, and what shows it."""

    holds: bool
    claim: str
    evidence: str


class Verdict(NamedTuple):
    """All that is to be said at the end."""

    passages: list[Passage]
    findings: list[Finding]

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(finding.holds for finding in self.findings)


def judge(stage: Stage, entries: Sequence[Entry], last_words: Callable[[str], str]) -> Verdict:
    """Judge a demonstration that is over; `last_words` are those of a process by its name."""
    passages = divide(stage.acts, entries)[FIRST_ACT:]
    reported = [token for worker in stage.workers for token in worker.written]
    findings = [
        never_stuck(passages),
        growing(entries),
        nothing_lost(entries, reported),
        _fenced(stage),
        _alive(stage, last_words),
    ]
    return Verdict(passages, findings)


def divide(acts: Sequence[Act], entries: Sequence[Entry]) -> list[Passage]:
    """Tell for each act how many entries fell into it and how long one had to wait for the next."""
    ends = [act.began_at for act in acts[1:]] + [float("inf")]
    gaps = [(later, later.written_at - entry.written_at) for entry, later in pairwise(entries)]
    passages = []
    for act, end in zip(acts, ends, strict=True):
        count = sum(act.began_at <= entry.written_at < end for entry in entries)
        within = [gap for later, gap in gaps if act.began_at <= later.written_at < end]
        passages.append(Passage(act.title, count, max(within, default=0.0)))
    return passages


def never_stuck(passages: Sequence[Passage]) -> Finding:
    """Find out whether somebody entered in every act."""
    claim = "never stuck"
    for passage in passages:
        if not passage.entries:
            return Finding(False, claim, f"nobody entered after this: {passage.title}")
    longest = max(passages, key=lambda passage: passage.longest_gap)
    evidence = f"longest gap between entries {longest.longest_gap:.2f} s: {longest.title}"
    return Finding(True, claim, evidence)


def growing(entries: Sequence[Entry]) -> Finding:
    """Find out whether each entry has a larger token than the one before it."""
    claim = "tokens strictly growing"
    for before, after in pairwise(entries):
        if before.token >= after.token:
            evidence = f"{after.worker} wrote with {after.token} after {before.token}"
            return Finding(False, claim, evidence)
    span = f"from {entries[0].token} to {entries[-1].token}" if entries else "there is none"
    return Finding(bool(entries), claim, span)


def nothing_lost(entries: Sequence[Entry], reported: Sequence[int]) -> Finding:
    """Find out whether every entry counts: none is missing, none was overwritten.

    Two workers inside at the same time have read the same number and write the same number.
    """
    claim = "nothing lost"
    for number, entry in enumerate(entries, 1):
        if entry.number != number:
            evidence = f"{entry.worker} wrote number {entry.number} where {number} was due"
            return Finding(False, claim, evidence)
    agree = sorted(reported) == sorted(entry.token for entry in entries)
    evidence = f"{len(reported):,} entries reported, {len(entries):,} lines in the file"
    return Finding(agree and bool(entries), claim, evidence)


def _fenced(stage: Stage) -> Finding:
    refused = [(worker.name, token) for worker in stage.workers for token in worker.refused]
    if not refused:
        return Finding(False, "late write refused", "nobody came too late")
    name, token = refused[-1]
    evidence = f"writes refused by the fence: {len(refused)}; {name} came late with {token}"
    return Finding(True, "late write refused", evidence)


def _alive(stage: Stage, last_words: Callable[[str], str]) -> Finding:
    dead = [node.name for node in stage.nodes if node.condition == "dead"]
    failed = [worker.name for worker in stage.workers if worker.process.returncode != 0]
    evidence = f"dead nodes: {', '.join(dead)}; failed workers: {', '.join(failed) or 'none'}"
    for name in [*dead[1:], *failed][:1]:
        evidence += f"; {name}: {last_words(name)}"
    return Finding(len(dead) == 1 and not failed, "nobody else harmed", evidence)
