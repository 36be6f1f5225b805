"""What a page of proofs is told, line by line: each line is one of these, in the order listed."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Outcome = Literal["kept", "lost", "not known"]


class Item(msgspec.Struct, frozen=True):
    """A clause, an axiom or a theorem, as its file has it."""

    name: str
    text: str  # empty where the page makes it itself
    why: str
    promised: bool
    left_out: bool
    added: bool  # by the reader


class Step(msgspec.Struct, frozen=True):
    """A step of the page."""

    name: str
    text: str


class Sheet(msgspec.Struct, frozen=True, tag="sheet"):
    """The page, before anything is proved."""

    name: str
    scope: str
    variant: str
    flaws: list[str]  # other values of the variant
    axioms: list[Item]
    clauses: list[Item]
    theorems: list[Item]
    steps: list[Step]
    symbols: list[str]


class Missing(msgspec.Struct, frozen=True, tag="missing"):
    """There is no solver: how to get one."""

    text: str


class Judged(msgspec.Struct, frozen=True, tag="judged"):
    """A clause or a theorem with all its obligations answered."""

    name: str
    outcome: Outcome
    steps: list[str]  # by which it is lost, or may be


class Proof(msgspec.Struct, frozen=True, tag="proof"):
    """The verdict on the page; how far the code is held against it comes later."""

    answer: str
    sentence: str
    promises: list[str]
    assumes: list[str]
    clauses: int
    steps: int
    obligations: int
    lost: int  # of these
    seconds: float


class Loss(msgspec.Struct, frozen=True, tag="loss"):
    """A state that fulfils all clauses, a step, and the clause that fails after it."""

    name: str
    step: str  # empty where a theorem does not follow
    witness: str
    before: list[str]
    changes: list[str]
    pictures: list[str]  # SVG: before and after, or one state


class Reality(msgspec.Struct, frozen=True, tag="reality"):
    """Whether a run leads from the start to a state in which a promise fails."""

    kind: Literal["real", "none", "not known"]
    text: str
    steps: list[str]


class Code(msgspec.Struct, frozen=True, tag="code"):
    """How far the code was held against the page."""

    kind: Literal["follows", "does not follow", "not held"]
    text: str
    trials: list[str]


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The text cannot be read: why, in one line."""

    error: str


Line: TypeAlias = Sheet | Missing | Judged | Proof | Loss | Reality | Code | Refused
