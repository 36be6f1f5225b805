"""A statement of a source, our verdict on it, and the command whose output has to bear the verdict out."""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum

from msgspec import Struct

SCENARIO = "scenario "
WORDS = (  # of one and of several statements, by verdict
    ("holds", "hold"),
    ("holds under a condition", "hold under a condition"),
    ("is refuted", "are refuted"),
    ("is shown for some cases", "are shown for some cases"),
    ("missing", "missing"),
)


class Verdict(Enum):
    """What we say to a statement; `words` of the statement say the rest of the sentence."""

    HOLDS = "holds"
    UNDER = "holds under"  # a condition that the source does not name
    REFUTED = "refuted by"  # a counterexample
    SHOWN = "shown for"  # the cases that the command looks at, and no others
    MISSING = "missing"  # no command shows it


class Statement(Struct, frozen=True):
    """One statement, in our words."""

    text: str
    verdict: Verdict
    words: str = ""
    evidence: str = ""  # a command, run in docs/ and without `coterie`, or `scenario NAME`
    prints: tuple[str, ...] = ()  # regular expressions: each has to be in a line of the output
    status: int = 0  # with which the command exits
    page: str = ""  # of docs/, where more is said

    def deciding_lines(self, printed: str, status: int) -> list[str]:
        """Return the lines of an output that decide; raise `ValueError` if it does not bear us out."""
        lines = printed.splitlines()
        absent = [each for each in self.prints if not any(re.search(each, line) for line in lines)]
        if absent or status != self.status:
            raise ValueError(
                f"{self.evidence!r} exits with {status} and does not print {absent}, where the verdict"
                f" {self.says!r} on {self.text!r} needs {self.status}:\n{printed}"
            )
        return [line for line in lines if any(re.search(each, line) for each in self.prints)]

    @property
    def says(self) -> str:
        """The verdict as a sentence."""
        if not self.words:
            return self.verdict.value
        colon = ":" if self.verdict in (Verdict.HOLDS, Verdict.MISSING) else ""
        return f"{self.verdict.value}{colon} {self.words}"

    @property
    def command(self) -> str | None:
        """The command line, where the evidence is not a scenario."""
        if not self.evidence or self.evidence.startswith(SCENARIO):
            return None
        return f"coterie {self.evidence}"

    @property
    def scenario(self) -> str | None:
        """The name of the scenario, where the evidence is one."""
        if not self.evidence.startswith(SCENARIO):
            return None
        return self.evidence.removeprefix(SCENARIO)


class Section(Struct, frozen=True):
    """A part of a source."""

    title: str
    statements: tuple[Statement, ...]


class Source(Struct, frozen=True):
    """A text, with what it states in the order of the text."""

    name: str
    title: str
    sections: tuple[Section, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All statements, in order: the first is number 1."""
        return tuple(statement for part in self.sections for statement in part.statements)

    def counts(self) -> dict[Verdict, int]:
        """Count the statements by verdict."""
        counted = Counter(statement.verdict for statement in self.statements)
        return {verdict: counted[verdict] for verdict in Verdict}

    def summary(self) -> str:
        """Count the statements by verdict, in a sentence."""
        parts = ", ".join(
            f"{count} {one if count == 1 else several}"
            for (one, several), count in zip(WORDS, self.counts().values(), strict=True)
        )
        return f"{len(self.statements)} statements: {parts}."


def holds(
    text: str,
    evidence: str,
    prints: str | tuple[str, ...],
    *,
    page: str,
    status: int = 0,
    words: str = "",
) -> Statement:
    """Make a statement that holds in general: by a proof, a formula or its own counterexample."""
    return Statement(text, Verdict.HOLDS, words, evidence, _lines(prints), status, page)


def under(
    text: str,
    condition: str,
    evidence: str,
    prints: str | tuple[str, ...],
    *,
    page: str,
    status: int = 0,
) -> Statement:
    """Make a statement that holds under a condition only."""
    return Statement(text, Verdict.UNDER, condition, evidence, _lines(prints), status, page)


def refuted(
    text: str, by: str, evidence: str, prints: str | tuple[str, ...], *, page: str, status: int = 0
) -> Statement:
    """Make a statement that does not hold."""
    return Statement(text, Verdict.REFUTED, by, evidence, _lines(prints), status, page)


def shown(
    text: str,
    cases: str,
    evidence: str,
    prints: str | tuple[str, ...],
    *,
    page: str,
    status: int = 0,
) -> Statement:
    """Make a statement that is shown for some cases."""
    return Statement(text, Verdict.SHOWN, cases, evidence, _lines(prints), status, page)


def missing(text: str, words: str, *, page: str = "") -> Statement:
    """Make a statement that no command says anything about; the words say what there is instead."""
    return Statement(text, Verdict.MISSING, words, page=page)


def _lines(prints: str | tuple[str, ...]) -> tuple[str, ...]:
    return (prints,) if isinstance(prints, str) else prints
