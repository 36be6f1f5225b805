"""The shortcut of `coterie lock` reads arguments as the full command does, or leaves them to it."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from coterie import locks
from coterie.cli.lock.command import command
from coterie.cli.lock.program import read_program
from coterie.cli.lock.shortcut import Request, hold_at_once, read_arguments
from coterie.cli.root import run_command
from coterie.locks.internals import names_of

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.locks import Acquirable

LINES = 3000
OPTIONS = [
    ("-n",),
    ("--nonblock",),
    ("-s",),
    ("--shared",),
    ("-ns",),
    ("-sn",),
    ("-nw5",),
    ("-sw5", "-n"),
    ("-sk2",),
    ("-nx",),
    ("-n=",),
    ("--nonblock=1",),
    ("-w=5",),
    ("--wait=",),
    ("-w",),
    ("-E+75",),
    ("-E9",),
    ("--conflict-exit-code=7",),
    ("-k", "1"),
    ("-k0",),
    ("-k", "٣"),
    ("--permits=3",),
    ("--also", "c d"),
    ("--also=b/c",),
    ("--also", "a"),
    ("-cexit 4",),
    ("--lease=1h",),
    ("--url=file:/y",),
    ("--on-lost=term",),
    ("--kill-after=3s",),
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
    ("--lease", "3"),
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


def wanted_in_full(options: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Name the locks of the full command; a mistake is told in the same way."""
    inner = locks.connect("file:/nowhere")
    wanted: Acquirable[Any] = inner.lock(options["name"], shared=options["shared"])
    if options["permits"] is not None:
        assert not options["shared"]
        wanted = inner.semaphore(options["name"], options["permits"])
    first = names_of(wanted)
    if options["also"]:
        wanted = inner.lock_all(wanted, *options["also"])
    assert names_of(wanted) == (*first, *options["also"])
    return (first, *((name,) for name in options["also"]))


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
            wanted=wanted_in_full(options),
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
        assert options["node"] is None, arguments
    assert taken > LINES / 5


def test_the_plain_ways_are_taken() -> None:
    for options in (
        (),
        ("-n",),
        ("-s",),
        ("-ns",),
        ("-w", "5s"),
        ("-w5s",),
        ("--wait=5s",),
        ("-k", "2"),
        ("--also", "b", "--also=c"),
        ("--url", "file:"),
        ("--on-lost", "kill"),
    ):
        assert read_arguments([*options, "a", "--", "true"]) is not None, options


@pytest.mark.parametrize(
    "arguments",
    [
        ["-k", "0", "a", "true"],
        ["-sk2", "a", "true"],
        ["--also", "a", "a", "true"],
        ["--node", "n", "a", "true"],
        ["-n", "-w", "1", "a", "true"],
        ["-w", "x", "a", "true"],
        ["a", "-n", "true"],
        ["a\tb", "true"],
        ["--help"],
        ["a"],
        [],
    ],
)
def test_what_is_unusual_or_wrong_is_left_to_the_full_command(arguments: list[str]) -> None:
    assert read_arguments(arguments) is None


RUNS = [
    (["-w5", "a"], "exit 3"),
    (["--wait=5s", "-s", "a/b"], "exit 0"),
    (["-nE9", "a"], "kill -9 $$"),
    (["-k2", "a"], "exit 4"),
    (["--also", "c", "--also=b", "a"], "exit 5"),
    (["--permits=2", "--also", "b", "a"], "exit 6"),
    (["--also", "b", "a"], 'rm "$1/words"'),
    (["-k", "3", "--on-lost=ignore", "a"], 'rm "$1/words"; exit 7'),
]


@pytest.mark.parametrize(("options", "script"), RUNS, ids=str)
def test_what_the_shortcut_runs_it_runs_as_the_full_command_does(
    options: list[str], script: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit status, what the program finds, and what is said of a loss; but for the digits of tokens."""
    program = ["--", "sh", "-c", f'echo "$COTERIE_LOCK $COTERIE_TOKEN"; {script}', "sh"]
    seen = []
    for number, way in enumerate((hold_at_once, run_in_full)):
        folder = f"{tmp_path}/{number}"
        status = way([f"--url=file:{folder}", *options, *program, folder])
        out, error = capfd.readouterr()
        seen.append((status, re.sub(r"\d{9,}", "TOKEN", out), re.sub(r"\d{9,}", "TOKEN", error)))
    assert seen[0][0] is not None, "it has taken the shortcut"
    assert seen[0] == seen[1]


def run_in_full(arguments: list[str]) -> int:
    return run_command(["lock", *arguments])
