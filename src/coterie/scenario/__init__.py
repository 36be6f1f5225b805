"""Scenarios: short plays for the processes of an algorithm, written as transcripts.

Commands stand flush left and what they caused is indented, so a transcript is both the script and
its outcome; `perform` ignores the indented lines and writes them again::

    ricart-agrawala 2
    acquire 1
      1 > 2  Request(1.1)
    deliver 1 > 2
      2 > 1  Reply
    deliver 2 > 1
      1 Entered

The first line names the algorithm and the number of processes, then what else there is to choose,
such as `variant=deferred coterie=grid`, or `channel=unordered` for weaker links than the algorithm
asks for. The commands are:

    acquire 1               a call, by the name that the user of the process has for it
    deliver 1 > 2           the oldest message on that link
    deliver 1 > 2 Reply     the oldest of that kind, or with that text, where links may reorder
    repeat 1 > 2            deliver it and keep it, to be delivered once more
    drop 1 > 2              lose it
    ring 2 NAME             let a timer run out
    crash 2                 stop a process
    restart 2               let it begin again, without memory
    down 1 2                let 1, which watches 2, hear that it has crashed
    suspect 1 2             let 1, which watches 2, hear so wrongly
    run                     deliver whatever is on its way, oldest first, until nothing is
    show                    print who is inside, who waits and what is on its way
    # words                 a comment; one above the first line is the title
"""

from __future__ import annotations

import functools
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.catalogue import unknown
from coterie.errors import CoterieError, UsageError
from coterie.process import Channel, MutexUser, Phase
from coterie.scenario.script import Script
from coterie.scenario.world import Letter, Manual
from coterie.trace import (
    Header,
    Trace,
    Violated,
    label,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.process import Outbox, ProcessId

RUN_LIMIT = 10_000  # deliveries after which `run` gives up: some algorithms are never quiet


class Performance(NamedTuple):
    """A scenario that was played: its transcript as it came out, and the trace of the run."""

    transcript: str
    trace: Trace


def perform(text: str) -> Performance:
    """Play a scenario. A line that cannot be played is an error that says what can be."""
    play: _Play | None = None
    transcript: list[str] = []
    title = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith((" ", "\t")):
            continue
        transcript.append(line.rstrip())
        if line.startswith("#") and play is None:
            title = title or line.strip("# ")
        if line.startswith("#") or not line.strip():
            continue
        try:
            if play is None:
                play = _begin(line, title)
                transcript += play.start()
            else:
                transcript += play.command(line)
        except CoterieError as error:
            raise UsageError(f"line {number}: {error}") from None
    if play is None:
        raise UsageError("an empty scenario: the first line is an algorithm and a size")
    return Performance("\n".join(transcript) + "\n", Trace(play.header, play.world.records))


def _begin(line: str, title: str) -> _Play:
    name, *rest = shlex.split(line)
    if not rest or not rest[0].isdecimal():
        raise UsageError(
            f"expected an algorithm and a size, such as 'ricart-agrawala 3', got {line!r}"
        )
    choices: dict[str, str] = {}
    for choice in rest[1:]:
        key, equals, value = choice.partition("=")
        if not equals:
            raise UsageError(f"expected name=value, such as 'variant=plain', got {choice!r}")
        choices[key] = value
    channels = {channel.value: channel for channel in Channel}
    channel = choices.pop("channel", "")
    if channel and channel not in channels:
        raise UsageError(unknown("channel", channel, channels))
    header = Header(
        algorithm=name,
        size=int(rest[0]),
        variant=choices.pop("variant", ""),
        parameters=choices,
        title=title,
    )
    return _Play(header, channels.get(channel))


class _Play:
    """A scenario on stage: a manual world that understands commands."""

    def __init__(self, header: Header, channel: Channel | None) -> None:
        self.header = header
        self.world = Manual(header)
        self.channel = channel or self.world.channel
        self.time = 0.0
        self.over = False

    def start(self) -> list[str]:
        """Let all processes begin, and tell what they did."""
        lines: list[str] = []
        for process in self.world.seats:
            lines += self._step(functools.partial(self.world.start, self.time, process))
        return lines

    def command(self, line: str) -> list[str]:
        """Carry out one command, and tell what it caused."""
        words = line.split()
        if words == ["show"]:
            return self._show()
        if self.over:
            raise UsageError("the scenario ended with a violation; only 'show' may follow")
        if words == ["run"]:
            return self._run()
        self.time += 1
        return self._move(line, words)

    def _move(self, line: str, words: list[str]) -> list[str]:
        match words:
            case ["deliver" | "repeat" as verb, sender, ">", receiver, *kind]:
                letter = self._letter(line, sender, receiver, " ".join(kind))
                return self._deliver(letter, keep=verb == "repeat")
            case ["drop", sender, ">", receiver, *kind]:
                letter = self._letter(line, sender, receiver, " ".join(kind))
                self.world.drop(self.time, letter, "dropped")
                return [f"  {_line(letter)} is lost"]
            case ["ring", process, timer]:
                return self._ring(line, self._process(process), timer)
            case ["down" | "suspect" as verb, process, peer]:
                wrongly = verb == "suspect"
                return self._down(line, self._process(process), self._process(peer), wrongly)
            case ["crash" | "restart" as verb, process]:
                return self._crash_or_restart(line, verb, self._process(process))
            case [call, process]:
                return self._call(line, call, self._process(process))
            case _:
                raise self._impossible(line)

    def _call(self, line: str, call: str, process: ProcessId) -> list[str]:
        if process in self.world.crashed or call not in self.world.seats[process].user.calls():
            raise self._impossible(line)
        return self._step(functools.partial(self.world.call, self.time, process, call))

    def _crash_or_restart(self, line: str, verb: str, process: ProcessId) -> list[str]:
        if (process in self.world.crashed) == (verb == "crash"):
            raise self._impossible(line)
        if verb == "restart":
            return self._step(functools.partial(self.world.start, self.time, process))
        self.world.crash(self.time, process)
        return []

    def _ring(self, line: str, process: ProcessId, timer: str) -> list[str]:
        if timer not in self.world.timers[process]:
            raise self._impossible(line)
        return self._step(functools.partial(self.world.ring, self.time, process, timer))

    def _down(self, line: str, process: ProcessId, peer: ProcessId, wrongly: bool) -> list[str]:
        alive = peer not in self.world.crashed
        if peer not in self.world.watched[process] or alive != wrongly:
            raise self._impossible(line)
        return self._step(functools.partial(self.world.down, self.time, process, peer))

    def _deliver(self, letter: Letter, *, keep: bool = False) -> list[str]:
        if letter.receiver in self.world.crashed:
            raise UsageError(f"process {letter.receiver} has crashed: drop what is sent to it")
        return self._step(functools.partial(self.world.deliver, self.time, letter, keep=keep))

    def _run(self) -> list[str]:
        lines: list[str] = []
        for _ in range(RUN_LIMIT):
            due = [x for x in self.world.transit if x.receiver not in self.world.crashed]
            if self.over or not due:
                return lines
            self.time += 1
            letter = due[0]
            lines.append(f"  deliver {letter.sender} > {letter.receiver} {label(letter.message)}")
            lines += ["  " + line for line in self._deliver(letter)]
        raise UsageError(
            f"still not quiet after {RUN_LIMIT} deliveries: deliver one by one instead"
        )

    def _step(self, move: Callable[[], Outbox[Any]]) -> list[str]:
        """Make a move; whatever a handler raises is a violation, and ends the scenario."""
        try:
            lines = _effects(move())
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            return [self._violate("no failure", f"{type(error).__name__}: {error}")]
        inside = self._in_phase(Phase.INSIDE)
        if len(inside) > 1:
            lines.append(
                self._violate("mutual exclusion", f"{' and '.join(inside)} are inside together")
            )
        return lines

    def _violate(self, name: str, text: str) -> str:
        self.over = True
        self.world.records.append(Violated(self.time, name, text))
        return f"  ! {text}"

    def _process(self, word: str) -> ProcessId:
        if word.isdecimal() and int(word) in self.world.seats:
            return int(word)
        raise UsageError(f"no process {word!r}: they are 1 to {self.header.size}")

    def _letter(self, line: str, sender: str, receiver: str, kind: str) -> Letter:
        """Find the message that a command means."""
        link = [
            letter
            for letter in self.world.transit
            if (letter.sender, letter.receiver) == (self._process(sender), self._process(receiver))
        ]
        means = [x for x in link if kind in ("", _kind(x), label(x.message))]
        if not means:
            raise self._impossible(line)
        if means[0] is not link[0] and self.channel is Channel.FIFO and not line.startswith("drop"):
            raise UsageError(
                f"{line!r}: this link keeps the order, and {label(link[0].message)} comes first"
                " (choose channel=unordered in the first line)"
            )
        return means[0]

    def _impossible(self, line: str) -> UsageError:
        return UsageError(f"cannot {line!r} here; possible: {', '.join(self._possible())}")

    def _possible(self) -> list[str]:
        alive = [me for me in self.world.seats if me not in self.world.crashed]
        calls = [f"{name} {me}" for me in alive for name in self.world.seats[me].user.calls()]
        links = [
            f"deliver {x.sender} > {x.receiver}" for x in self.world.transit if x.receiver in alive
        ]
        rings = [f"ring {me} {timer}" for me in alive for timer in self.world.timers[me]]
        downs = [
            f"down {me} {peer}"
            for me in alive
            for peer in sorted(self.world.watched[me] - set(alive))
        ]
        crashes = [f"crash {alive[0]} to {alive[-1]}"] if alive else []
        crashes += [f"restart {me}" for me in sorted(self.world.crashed)]
        return [*calls, *dict.fromkeys(links), *rings, *downs, *crashes, "run", "show"]

    def _show(self) -> list[str]:
        standing = {
            "inside": self._in_phase(Phase.INSIDE),
            "waiting": self._in_phase(Phase.WAITING),
            "crashed": [str(process) for process in sorted(self.world.crashed)],
            "timers": [
                f"{me} {name}" for me in self.world.timers for name in self.world.timers[me]
            ],
        }
        letters = ", ".join(map(_line, self.world.transit)) or "nothing"
        return [
            *(f"  {name}: {', '.join(who)}" for name, who in standing.items() if who),
            f"  on its way: {letters}",
        ]

    def _in_phase(self, phase: Phase) -> list[str]:
        return [
            str(me)
            for me, seat in self.world.seats.items()
            if isinstance(seat.user, MutexUser) and seat.user.phase is phase
            if me not in self.world.crashed
        ]


def _effects(out: Outbox[Any]) -> list[str]:
    return [
        *(f"  {out.me} > {receiver}  {label(message)}" for receiver, message in out.sends),
        *(
            f"  {out.me} cancels {name}"
            if after is None
            else f"  {out.me} sets {name} to {after:g}"
            for name, after in out.timers
        ),
        *(f"  {out.me} {label(event)}" for event in out.events),
    ]


def _line(letter: Letter) -> str:
    return f"{letter.sender} > {letter.receiver}  {label(letter.message)}"


def _kind(letter: Letter) -> str:
    return type(letter.message).__name__


def from_trace(trace: Trace) -> str:
    """Write the scenario of a run, such as a counterexample that the explorer has found.

    Runs in which processes pause, or come back with their memory, have none.
    """
    script = Script(trace)
    for record in trace.records:
        script.write(record)
    return perform(script.text()).transcript
