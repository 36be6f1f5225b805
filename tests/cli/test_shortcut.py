"""The shortcut of `coterie lock` reads arguments as the full command does, or leaves them to it."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import locks
from coterie.cli.lock.command import command
from coterie.cli.lock.options import JOB_OPTIONS, LOCK_OPTIONS, Number, OneOf, Option
from coterie.cli.lock.program import Job, read_program
from coterie.cli.lock.shortcut import UNUSUAL, Request, hold_at_once, read_arguments
from coterie.cli.root import run_command
from coterie.errors import UsageError
from coterie.locks.duration import duration
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
    ("--note", "n"),
    ("--read=f",),
    ("--write", "f"),
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


def check_both_agree(arguments: list[str]) -> bool:
    """Read a line both ways; return whether the shortcut took it."""
    request = read_arguments(arguments)
    if request is None:
        return False
    options = read_in_full(arguments)
    program = read_program(options["program"], options["shell"])
    job = Job(program, options["on_lost"], options["kill_after"])
    wanted = wanted_in_full(options)
    assert request == Request(wanted, options["url"], options["shared"], job), arguments
    assert program, arguments
    assert not (options["nonblock"] and options["wait"] is not None), arguments
    assert all(options[key] is None for key in UNUSUAL), arguments
    return True


def test_what_the_shortcut_understands_it_understands_as_the_full_command_does() -> None:
    taken = sum(check_both_agree(arguments) for arguments in random_lines())
    assert taken > LINES / 5


# Lines that are drawn from the table of options itself

TABLE = (*LOCK_OPTIONS, *JOB_OPTIONS)
NUMBERS = st.one_of(
    st.integers(-1, 300).map(str),
    st.integers(0, 3).map(lambda zeros: "0" * zeros + "7"),
    st.sampled_from(["٣", "1_0", "+2", " 3", "2.0", "9" * 5000, "0" * 5000 + "1", ""]),
)
DURATIONS = st.builds(
    "{}{}".format,
    st.sampled_from(["0", "5", ".5", "1.25", "-1", "x", "٣"]),
    st.sampled_from(["", "s", "ms", "m", "h", "d", " s"]),
)
WORDS = st.one_of(
    st.sampled_from(["a", "b", "term", "kill", "ignore", "Kill", "file:/x", "", "-", "-n", "--"]),
    st.text(st.characters(codec="utf-8"), max_size=4),
)
PROGRAMS = st.sampled_from([[], ["true"], ["--", "true"], ["-c", "exit 2"], ["-n", "true"]])


def values_of(option: Option) -> st.SearchStrategy[str]:
    """Draw what may be written behind an option, right or wrong."""
    if isinstance(option.kind, Number):
        return NUMBERS
    if isinstance(option.kind, OneOf):
        return st.one_of(st.sampled_from(option.kind.words), WORDS)
    return DURATIONS if option.kind is duration else WORDS


@st.composite
def written(draw: st.DrawFn) -> list[str]:
    """Draw one option as it may be written: apart, with =, or in one word with its flags."""
    option = draw(st.sampled_from(TABLE))
    name = draw(st.sampled_from(option.names))
    if option.kind is None:
        return [name]
    value = draw(values_of(option))
    if name.startswith("--"):
        return [f"{name}={value}"] if draw(st.booleans()) else [name, value]
    flags = draw(st.sampled_from(["", "n", "s", "ns", "x"]))
    return [f"-{flags}{name[1:]}{value}"] if draw(st.booleans()) else [f"-{flags}{name[1:]}", value]


@given(st.lists(written(), max_size=4), WORDS, PROGRAMS)
def test_both_parsers_agree_on_every_line_drawn_from_the_table(
    options: list[list[str]], name: str, program: list[str]
) -> None:
    check_both_agree([*(text for option in options for text in option), name, *program])


RIGHT = {"wait": "5s", "conflict": "7", "permits": "2", "also": "b", "shell": "exit 3"} | {
    "url": "file:/x",
    "lease": "3s",
    "on_lost": "kill",
    "kill_after": "1s",
}


@pytest.mark.parametrize(
    "option", [each for each in TABLE if each.key not in UNUSUAL], ids=lambda option: option.key
)
def test_the_shortcut_takes_each_option_by_each_of_its_names(option: Option) -> None:
    program = [] if option.key == "shell" else ["--", "true"]
    for name in option.names:
        written = [name] if option.kind is None else [name, RIGHT[option.key]]
        assert check_both_agree([*written, "a", *program]), name


@pytest.mark.parametrize("option", ["-k", "--permits=", "-E", "--conflict-exit-code="])
@pytest.mark.parametrize("digits", [20, 4000, 5000])
def test_thousands_of_digits_are_a_mistake_and_not_an_error_of_ours(
    option: str, digits: int, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = [option + "9" * digits, "a", "--", "true"]
    assert hold_at_once(arguments) is None
    assert run_in_full(arguments) == UsageError.exit_status
    message = capfd.readouterr().err
    assert message.count("\n") == 1
    assert message.startswith("coterie: Invalid value for '-")


@pytest.mark.parametrize("old", ["--ttl=3s", "--holders=2"])
def test_an_old_name_is_an_unknown_option(old: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = [old, "a", "--", "true"]
    assert hold_at_once(arguments) is None
    assert run_in_full(arguments) == UsageError.exit_status
    message = capfd.readouterr().err
    assert "No such option" in message
    assert old.partition("=")[0] in message


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
        ["--note", "n", "a", "true"],
        ["--read", "f", "a", "true"],
        ["--write", "f", "a", "true"],
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
