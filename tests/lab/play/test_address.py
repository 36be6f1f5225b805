"""Addresses: every run goes there and back, and no text at all is answered with an exception."""

from __future__ import annotations

import base64
import contextlib
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import UsageError
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.address import (
    RunAddress,
    code_of,
    move_of,
    read_address,
    write_address,
)
from coterie.lab.play.runs.refusal import Refusal

CODES = {
    "acquire 1": "a1",
    "release 1": "r1",
    "elect 2": "e2",
    "deliver 1 > 2": "d1.2",
    "deliver 1 > 2 Reply": "d1.2.Reply",
    "deliver 1 > 2 Token([0 1 2], [])": "d1.2.Token([0 1 2], [])",
    "drop 1 > 2": "x1.2",
    "repeat 2 > 1 Request(1.2)": "p2.1.Request(1.2)",
    "ring 2 beat": "t2.beat",
    "ring 2 T_max-3": "t2.T_max-3",
    "ring 2 3": "t2.3",
    "crash 2": "c2",
    "restart 2": "n2",
    "down 1 2": "w1.2",
    "suspect 1 2": "s1.2",
    "vote 3": "k3.vote",
    "run": "g",
}

NUMBERS = st.integers(1, 999).map(str)
NAMES = st.from_regex(r"[A-Za-z@/%#.?_(),é-]{1,8}", fullmatch=True)
MOVES = st.one_of(
    st.builds("{} {}".format, st.sampled_from(["acquire", "release", "elect", "crash"]), NUMBERS),
    st.builds("{} {} > {}".format, st.sampled_from(["deliver", "drop"]), NUMBERS, NUMBERS),
    st.builds("repeat {} > {} {}".format, NUMBERS, NUMBERS, NAMES),
    st.builds("ring {} {}".format, NUMBERS, NAMES),
    st.builds("{} {} {}".format, st.sampled_from(["down", "suspect"]), NUMBERS, NUMBERS),
    st.just("run"),
)


@pytest.mark.parametrize(("move", "code"), CODES.items())
def test_each_move_has_a_code(move: str, code: str) -> None:
    assert code_of(move) == code
    assert move_of(code) == move


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30), st.lists(MOVES, max_size=30), st.none() | st.integers(0, 99))
def test_a_run_goes_into_an_address_and_back(
    first: str, moves: list[str], cursor: int | None
) -> None:
    address = RunAddress(first.encode(errors="ignore").decode(), moves, cursor)
    text = write_address(address)
    assert text.isascii()
    assert " " not in text
    assert read_address(text) == address


def test_a_long_run_is_packed() -> None:
    address = RunAddress("maekawa 3", ["acquire 1", "deliver 1 > 2", "crash 3"] * 400, 1200)
    text = write_address(address)
    assert text.startswith("#/z/")
    assert len(text) < 200
    assert read_address(text) == address


def test_a_counterexample_is_short_enough_to_be_sent() -> None:
    moves = ["acquire 1", "acquire 2", "acquire 3", *(f"deliver {x}" for x in ("1 > 2", "2 > 3"))]
    address = write_address(RunAddress("maekawa 3 variant=basic", [*moves, "deliver 3 > 1"], 6))
    assert address == "#/run/maekawa%203%20variant=basic/a1/a2/a3/d1.2/d2.3/d3.1@6"
    assert len("http://localhost:8421/" + address) < 90


BOMB = base64.urlsafe_b64encode(zlib.compress(b"a" * 10_000_000)).decode()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "an address such as"),
        ("#/learn/x", "an address such as"),
        ("#/run/maekawa 3/a1@x", "after the @"),
        ("#/run/maekawa 3/a1@", "after the @"),
        ("#/run/maekawa 3/a1/q7@1", "no move is written 'q7'"),
        ("#/run/maekawa 3/" + "a1/" * 2001, "at most 2,000 moves"),
        ("#/run/" + "x" * 70_000, "too long"),
        ("#/z/%%%", "damaged"),
        ("#/z/AAAA", "damaged"),
        ("#/z/" + BOMB, "damaged"),
    ],
    ids=range(10),
)
def test_what_is_no_address_is_refused(text: str, error: str) -> None:
    with pytest.raises(Refusal, match=error):
        read_address(text)


HOSTILE_FIRST = st.one_of(
    st.text(max_size=60),
    st.builds(
        "{} {} {}={}".format,
        st.sampled_from(
            [
                "maekawa",
                "lamport",
                "raymond",
                "weighted",
                "decentralized",
                "leased",
                "token-ring",
                "centralized",
                "fault-tolerant",
                "bully",
                "costs",
                "__init__",
                "trees",
            ]
        ),
        st.sampled_from(["0", "1", "2", "3", "9", "10", "-1", "99999", "9" * 50]),
        st.sampled_from(
            [
                "variant",
                "coterie",
                "votes",
                "tree",
                "ring",
                "pause",
                "replicas",
                "resource",
                "lease",
                "voters",
                "policy",
                "patience",
                "channel",
                "clock",
                "table",
                "sigma",
                "failures",
            ]
        ),
        st.one_of(
            st.text(max_size=12),
            st.sampled_from(
                ["1,2,3", "-1", "1e999", "nan", "0", "9" * 400, "grid", "random:x", "/etc/passwd"]
            ),
        ),
    ),
)


@settings(max_examples=70, deadline=None)
@given(
    HOSTILE_FIRST,
    st.lists(st.one_of(MOVES, st.text(max_size=20)), max_size=6),
    st.none() | st.integers(),
)
def test_any_question_is_answered(first: str, moves: list[str], cursor: int | None) -> None:
    lab = Laboratory()
    question = Question(first, moves, cursor, Bound(1), known=cursor or 0, budget_ms=0)
    for ask in (lab.play, lab.fates, lab.way):
        with contextlib.suppress(UsageError):
            assert msgspec.json.encode(ask(question))


@settings(max_examples=70, deadline=None)
@given(
    st.one_of(
        st.text(max_size=2_000),
        st.text(max_size=1_990).map("#/run/".__add__),
        st.text(alphabet="adxptcnwsg/@.123 %#z=", max_size=300).map("#/run/maekawa 3/".__add__),
        st.binary(max_size=900).map(lambda x: "#/z/" + base64.urlsafe_b64encode(x).decode()),
    )
)
def test_any_address_is_answered(text: str) -> None:
    with contextlib.suppress(UsageError):
        address = Laboratory().open(text)
        question = Question(address.first, address.moves, address.cursor, budget_ms=0)
        assert msgspec.json.encode(Laboratory().play(question))


def test_bounds_stand_behind_the_place_of_the_reader() -> None:
    run = RunAddress("maekawa 3", ["acquire 1"], 1, {"crashes": 1, "entries": 2})
    assert write_address(run) == "#/run/maekawa%203/a1@1?crashes=1&entries=2"
    assert read_address(write_address(run)) == run
    long = msgspec.structs.replace(run, moves=["acquire 1"] * 1000, cursor=7)
    assert write_address(long).startswith("#/z/")
    assert read_address(write_address(long)) == long


@pytest.mark.parametrize("bounds", ["crashes", "crashes=x", "crashes=12", "fires=1", "crashes=1;"])
def test_bounds_of_other_words_are_refused(bounds: str) -> None:
    with pytest.raises(Refusal, match="bounds such as crashes=1"):
        read_address(f"#/run/maekawa%203/a1@1?{bounds}")


def test_bounds_out_of_range_are_refused() -> None:
    with pytest.raises(Refusal, match="crashes must be between 0 and 4, not 9"):
        Laboratory().open("#/run/maekawa%203/a1@1?crashes=9")
