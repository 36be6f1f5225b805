"""The shortcut of `coterie lock` reads arguments as the full command does, or leaves them to it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from coterie.cli.lock.command import command
from coterie.cli.lock.program import read_program
from coterie.cli.lock.shortcut import Request, read_arguments

LINES = 3000
OPTIONS = [
    ("-n",),
    ("--nonblock",),
    ("-s",),
    ("--shared",),
    ("-ns",),
    ("-w", "5s"),
    ("-w", "x"),
    ("-w5",),
    ("--wait", "250ms"),
    ("--wait=1m",),
    ("-w", "-n"),
    ("-E", "0"),
    ("-E", "255"),
    ("-E", "256"),
    ("-E", "٣"),
    ("--conflict-exit-code", "7"),
    ("-k", "2"),
    ("--also", "b"),
    ("-c", "exit 3"),
    ("-c", "--"),
    ("--ttl", "3"),
    ("--url", "file:/x"),
    ("--url", ""),
    ("--node", "n1"),
    ("--on-lost", "kill"),
    ("--on-lost", "ignore"),
    ("--on-lost", "KILL"),
    ("--on-lost",),
    ("--kill-after", "0"),
    ("--kill-after", "1.5h"),
    ("--help",),
    ("--no-such",),
    ("-",),
    ("--",),
]
RESTS = [
    ("a", "true"),
    ("a", "--", "true"),
    ("a/b", "sh", "-c", "exit 1", "-n"),
    ("a", "-c", "exit 2"),
    ("a", "-c"),
    ("a", "-n", "true"),
    ("a", "--", "--", "x"),
    ("a", ""),
    ("a",),
    ("a", "--"),
    ("a b", "true"),
    ("", "true"),
    ("x" * 256, "true"),
    (),
]


def random_lines() -> list[list[str]]:
    dice = Random(13)  # any other will do
    lines = []
    for _ in range(LINES):
        options = dice.choices(OPTIONS, k=dice.choice([0, 0, 1, 1, 2, 3]))
        rest = dice.choice(RESTS[:3] if dice.random() < 0.7 else RESTS)
        lines.append([text for group in (*options, rest) for text in group])
    return lines


def read_in_full(arguments: list[str]) -> dict[str, Any]:
    with command.make_context("lock", list(arguments), resilient_parsing=False) as context:
        return context.params


def test_what_the_shortcut_understands_it_understands_as_the_full_command_does() -> None:
    taken = 0
    for arguments in random_lines():
        request = read_arguments(arguments)
        if request is None:
            continue
        taken += 1
        options = read_in_full(arguments)
        program = read_program(options["program"], options["shell"])
        assert request == Request(
            name=options["name"],
            url=options["url"],
            shared=options["shared"],
            job=request.job._replace(
                program=program,
                on_lost=options["on_lost"],
                kill_after=options["kill_after"],
            ),
        ), arguments
        assert program, arguments
        assert not (options["nonblock"] and options["wait"] is not None), arguments
        assert (options["holders"], options["also"], options["node"]) == (None, (), None), arguments
    assert taken > LINES / 5


def test_the_plain_ways_are_taken() -> None:
    for options in ((), ("-n",), ("-s",), ("-w", "5s"), ("--url", "file:"), ("--on-lost", "kill")):
        assert read_arguments([*options, "a", "--", "true"]) is not None


@pytest.mark.parametrize(
    "arguments",
    [
        ["-k", "2", "a", "true"],
        ["--also", "b", "a", "true"],
        ["--node", "n", "a", "true"],
        ["-n", "-w", "1", "a", "true"],
        ["-w", "x", "a", "true"],
        ["a", "-n", "true"],
        ["a b", "true"],
        ["--help"],
        ["a"],
        [],
    ],
)
def test_what_is_unusual_or_wrong_is_left_to_the_full_command(arguments: list[str]) -> None:
    assert read_arguments(arguments) is None
