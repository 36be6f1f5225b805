"""A scenario on stage: a manual world that understands the commands of scenarios."""

from __future__ import annotations

import copy
import functools
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from coterie.catalogue import unknown
from coterie.errors import UsageError
from coterie.lab.scenario.world import Letter, Manual, pick
from coterie.process import Channel, MutexUser, Phase, describe_error
from coterie.trace import Header, Violated, label

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.scenario.world import Move
    from coterie.process import Outbox, ProcessId

RUN_LIMIT = 10_000  # deliveries after which `run` gives up: some algorithms are never quiet
DIGITS_MAX = 6  # of a size or the id of a process
CLOCKS: tuple[Literal["time", "none"], ...] = ("time", "none")


def begin(line: str, title: str = "", clock: Literal["time", "none"] = "time") -> Play:
    """Build what the first line of a scenario says; `clock` holds unless the line chooses one."""
    return Play(*read_first_line(line, title, clock))


def read_first_line(
    line: str, title: str = "", clock: Literal["time", "none"] = "time"
) -> tuple[Header, Channel | None]:
    """Read a first line; whether there are such processes is not looked at here."""
    name, *rest = _words(line)
    if not rest or not _is_number(rest[0]):
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
    chosen = choices.pop("clock", clock)
    if chosen not in CLOCKS:
        raise UsageError(unknown("clock", chosen, CLOCKS))
    header = Header(
        algorithm=name,
        size=int(rest[0]),
        variant=choices.pop("variant", ""),
        parameters=choices,
        title=title,
        clock="none" if chosen == "none" else "time",
    )
    return header, channels.get(channel)


def _is_number(word: str) -> bool:
    """Return whether a word is a number that a scenario can mean; `int` refuses very long ones."""
    return word.isdecimal() and len(word) <= DIGITS_MAX


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line) or [""]
    except ValueError as error:  # a quotation mark too few
        raise UsageError(f"{line!r}: {str(error).lower()}") from None


class Play:
    """Processes that do what commands say; time is the number of the command."""

    def __init__(self, header: Header, channel: Channel | None) -> None:
        """Build the processes; they begin with `start`. The channel is theirs unless one is given."""
        self.header = header
        self.world = Manual(header)
        self.channel = channel or self.world.channel
        self.time = 0.0
        self.over = False  # by a violation
        self.asked: Counter[ProcessId] = Counter()  # how often each user has asked
        self.spent: Counter[str] = Counter()  # faults so far, by the command

    def fork(self) -> Play:
        """Make a second play that stands where this one stands, to be led elsewhere."""
        other = copy.copy(self)
        other.world = self.world.fork()
        other.asked, other.spent = self.asked.copy(), self.spent.copy()
        return other

    def enabled(self) -> list[Move]:
        """List the moves that are possible now, each once."""
        return [] if self.over else self.world.enabled(self.channel)

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
        self._require_going_on()
        return self._run() if words == ["run"] else self.move(line)

    def move(self, line: str) -> list[str]:
        """Make one move, and tell what it caused; one that is refused changes nothing."""
        self._require_going_on()
        self.time += 1
        try:
            return self._move(line, line.split())
        except UsageError:
            self.time -= 1
            raise

    def meant(self, line: str) -> Move:
        """Return the possible move that a command means, or refuse it as `move` does."""
        words = [str(int(word)) if _is_number(word) else word for word in line.split()]
        moves = {move.text: move for move in self.enabled()}
        if (known := moves.get(" ".join(words))) is not None:
            return known
        if len(words) < 4 or words[2] != ">":
            raise self._impossible(line)
        letter = self._letter(line, words[1], words[3], " ".join(words[4:]))
        wanted = (words[0], letter.receiver, letter.sender, label(letter.message))
        for move in moves.values():
            if (move.kind, move.process, move.peer, move.name) == wanted:
                return move
        raise self._impossible(line)

    def next_delivery(self) -> Move | None:
        """Return the move that delivers the oldest message that can arrive, as `run` does."""
        for letter in self._due()[:1]:
            wanted = (letter.receiver, letter.sender, label(letter.message))
            for move in self.enabled():
                if move.kind == "deliver" and (move.process, move.peer, move.name) == wanted:
                    return move
        return None

    def _require_going_on(self) -> None:
        if self.over:
            raise UsageError("the scenario ended with a violation; only 'show' may follow")

    def _due(self) -> list[Letter]:
        return [x for x in self.world.transit if x.receiver not in self.world.crashed]

    def _move(self, line: str, words: list[str]) -> list[str]:
        match words:
            case ["deliver" | "repeat" as verb, sender, ">", receiver, *kind]:
                letter = self._letter(line, sender, receiver, " ".join(kind))
                return self._deliver(letter, keep=verb == "repeat")
            case ["drop", sender, ">", receiver, *kind]:
                letter = self._letter(line, sender, receiver, " ".join(kind))
                self.spent["drop"] += letter.receiver not in self.world.crashed
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
        user = self.world.seats[process].user
        self.asked[process] += not (isinstance(user, MutexUser) and user.phase is Phase.INSIDE)
        return self._step(functools.partial(self.world.call, self.time, process, call))

    def _crash_or_restart(self, line: str, verb: str, process: ProcessId) -> list[str]:
        if (process in self.world.crashed) == (verb == "crash"):
            raise self._impossible(line)
        self.spent[verb] += 1
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
        self.spent["suspect"] += wrongly
        return self._step(functools.partial(self.world.down, self.time, process, peer))

    def _deliver(self, letter: Letter, *, keep: bool = False) -> list[str]:
        if letter.receiver in self.world.crashed:
            raise UsageError(f"process {letter.receiver} has crashed: drop what is sent to it")
        self.spent["repeat"] += keep
        return self._step(functools.partial(self.world.deliver, self.time, letter, keep=keep))

    def _run(self) -> list[str]:
        lines: list[str] = []
        for _ in range(RUN_LIMIT):
            due = self._due()
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
            process = next(iter(self.world.seats.values())).process
            return [self._violate("no failure", describe_error(error, process))]
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
        if _is_number(word) and int(word) in self.world.seats:
            return int(word)
        raise UsageError(f"no process {word!r}: they are 1 to {self.header.size}")

    def _letter(self, line: str, sender: str, receiver: str, kind: str) -> Letter:
        """Find the message that a command means."""
        link = [
            letter
            for letter in self.world.transit
            if (letter.sender, letter.receiver) == (self._process(sender), self._process(receiver))
        ]
        letter = pick(link, kind)
        if letter is None:
            raise self._impossible(line)
        if letter is not link[0] and self.channel is Channel.FIFO and not line.startswith("drop"):
            raise UsageError(
                f"{line!r}: this link keeps the order, and {label(link[0].message)} comes first"
                " (choose channel=unordered in the first line)"
            )
        return letter

    def _impossible(self, line: str) -> UsageError:
        return UsageError(f"cannot {line!r} here; possible: {', '.join(self._possible())}")

    def _possible(self) -> list[str]:
        moves = self.enabled()
        texts = [
            f"deliver {move.peer} > {move.process}" if move.kind == "deliver" else move.text
            for move in moves
            if move.kind in ("call", "deliver", "ring", "down")
        ]
        alive = [move.process for move in moves if move.kind == "crash"]
        texts += [f"crash {alive[0]} to {alive[-1]}"] if alive else []
        texts += [move.text for move in moves if move.kind == "restart"]
        return [*dict.fromkeys(texts), "run", "show"]

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
