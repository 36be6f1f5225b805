"""Lines of the stack, broken one at a time: a range of seeds has to notice each."""

from __future__ import annotations
import __future__

import contextlib
import inspect
import sys
import textwrap
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from coterie import system
from coterie.cluster.client.lease_group import LeaseGroup
from coterie.cluster.runtime.durable import replace
from coterie.cluster.runtime.host import Host
from coterie.cluster.store.log import StoreLog
from coterie.cluster.voter.host import HostedVoter, VoterHost
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.link import Link
from coterie.cluster.wire.peers import Peer
from coterie.mutex.quorum.leased.participant import Participant
from coterie.mutex.quorum.leased.settings import Settings
from coterie.mutex.quorum.leased.voter import Voter

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Bug:
    """A piece of a class or a function, replaced, and the workload that notices."""

    where: Any
    old: str
    new: str
    workload: str
    seeds: int = 30  # from 0 on, in which it is noticed
    first: int = 0  # to be tried first, for it was noticed there
    details: str | None = None


BUGS: dict[str, Bug] = {
    # Time
    "a hold outlasts its lease": Bug(
        LeaseGroup,
        "now < self._participant.sound_until or self._participant.valid(claim.lock, now)",
        "True",
        "exclusive",
        first=24,
    ),
    "leases stand still while the machine sleeps": Bug(
        system.now,
        "_here.now()",
        "_here.monotonic()",
        "exclusive",
        seeds=80,
        first=24,
    ),
    "sessions expire before their leases": Bug(
        Settings,
        "lease * (1 + self.rate_error) / (1 - self.rate_error) + self.margin",
        "lease / 2",
        "exclusive",
        first=1,
    ),
    "no vote is abstained from after a restart": Bug(
        Voter, "if out.saved or self.cautious:", "if self.cautious:", "exclusive", seeds=60, first=1
    ),
    # Timers
    "a timer that is armed again rings twice": Bug(
        Host, "            armed.handle.cancel()", "            pass", "exclusive", first=15
    ),
    "a late timer cannot be cancelled": Bug(
        Host,
        "        handle = loop.call_soon(self._drain, name, self._steps, quiet, turns - 1)\n"
        "        self._timers[name] = Timer(handle, self._timers[name].due, is_late=True)",
        "        late = self._timers.pop(name)\n"
        "        loop.call_soon(lambda n, *a: (self._timers.setdefault(n, late), "
        "self._drain(n, *a)), name, self._steps, quiet, turns - 1)",
        "classic-late",
        details="token-ring/regenerating",
        seeds=200,
        first=48,
    ),
    # Disks
    "records are not appended": Bug(
        Host, "self._storage.append(out.appended)", "pass", "store", seeds=40, first=1
    ),
    "a file is not synced": Bug(
        replace, "system.sync(file.fileno())", "pass", "exclusive", seeds=60, first=2
    ),
    "a log is not synced": Bug(
        StoreLog,
        "        system.sync(self._file.fileno())",
        "        pass",
        "store",
        seeds=60,
        first=2,
    ),
    # Frames and connections
    "an old connection is kept beside the new": Bug(
        VoterHost,
        "if self.lines.get(number) is line:",
        "if number in self.lines:",
        "exclusive",
        seeds=60,
        first=19,
    ),
    "a broken link is not made again": Bug(
        Link, "        while True:", "        for _ in range(1):", "exclusive", first=1
    ),
    "letters are delivered twice": Bug(
        Peer, "if letter.seq == self._delivered + 1:", "if letter.seq:", "classic", first=6
    ),
    "letters are lost with their connection": Bug(
        Peer,
        "        self._waiting.extendleft(reversed(self._unconfirmed))",
        "        pass",
        "classic",
        first=9,
    ),
    # Voters and participants
    "tokens begin again after a restart": Bug(
        Voter,
        'self.bound = self.floor = self.clock = int(out.saved or b"0")',
        'self.bound = int(out.saved or b"0")',
        "exclusive",
        seeds=60,
        first=1,
    ),
    "a lease is counted from the answer": Bug(
        Participant,
        "return max(0.0, self._valid_until(bid) - now)",
        "return max(0.0, self._valid_until(bid) + 2 * self.settings.lease - now)",
        "exclusive",
        first=24,
    ),
}

# Not noticed in 30 to 80 seeds: sessions and links repair most of them, others need rarer faults.
UNNOTICED: dict[str, Bug] = {
    "a restart of a peer is not noticed": Bug(  # its receipts end the connection: it waits, at worst
        Peer,
        "if self._life is not None and life != self._life:",
        "if False:",
        "classic-returns",
        seeds=60,
    ),
    "the bound is not saved": Bug(
        Host, "self._storage.save(out.to_save)", "pass", "exclusive", seeds=60
    ),
    "sites speak before the disk has it": Bug(
        Host,
        "        gathered.sends += out.sends\n",
        "        for to, message in out.sends:\n            self._send(to, message)\n",
        "store",
        seeds=60,
    ),
    "steps go on after the disk has failed": Bug(
        Host,
        "            self.failed = True\n            self.stop()\n",
        "            return True\n",
        "store",
        seeds=60,
    ),
    "a folder is not synced": Bug(
        replace, "    sync_folder(path.parent)", "    pass", "locks", seeds=60
    ),
    "a memory is used twice": Bug(
        Storage, "        self._memory.unlink()", "        pass", "exclusive", seeds=300
    ),
    "a memory is used after a reboot": Bug(
        Storage,
        "memory.boot == clock.boot() and memory.written_at <= clock.now()",
        "True",
        "exclusive",
        seeds=80,
    ),
    "what is split is lost": Bug(
        Connection,
        "            self._incoming.extend(view[rest:])",
        "            pass",
        "exclusive",
    ),
    "a frame that is joined to another is lost": Bug(
        Connection, "            start = end\n", "            start = len(view)\n", "exclusive"
    ),
    "frames leave in another order": Bug(
        Connection,
        "        outgoing, self._outgoing = self._outgoing, bytearray()",
        "        outgoing, self._outgoing = self._outgoing, bytearray()\n"
        "        first = 4 + LENGTH.unpack_from(outgoing)[0]\n"
        "        outgoing = outgoing[first:] + outgoing[:first]",
        "exclusive",
    ),
    "a letter of a former life is taken": Bug(
        Peer,
        "        if life != self._life:\n            raise",
        "        if False:\n            raise",
        "store-lives",
        seeds=60,
    ),
    "a bound covers nothing": Bug(
        Voter, "        if tenure.high > self.bound:", "        if False:", "exclusive", seeds=60
    ),
    "a new connection sends nothing again": Bug(
        Voter,
        "    if link is not None:\n            self._send(link, link.unacked, out)",
        "    pass",
        "exclusive",
        seeds=60,
    ),
    "a node without a memory votes at once": Bug(
        HostedVoter,
        "            self.voter.abstains_until = math.inf",
        "            self.voter.abstains_until = float('-inf')",
        "locks",
        seeds=80,
    ),
}


@contextlib.contextmanager
def seeded(bug: Bug) -> Iterator[None]:
    """Let the code run with the bug in it."""
    text = textwrap.dedent(inspect.getsource(bug.where))
    old = bug.old if bug.old in text else textwrap.dedent(bug.old)
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {bug.where}"
    module = sys.modules[bug.where.__module__]
    made: dict[str, Any] = {}
    code = compile(
        text.replace(old, bug.new),
        str(module.__file__),
        "exec",
        __future__.annotations.compiler_flag,
    )
    exec(code, module.__dict__, made)  # noqa: S102 - the source is our own, with one line changed
    broken = made[bug.where.__name__]
    changed = [
        (function, function.__code__, other.__code__)
        for function, other in _functions(bug.where, broken)
        if function.__code__.co_code != other.__code__.co_code
        or function.__code__.co_consts != other.__code__.co_consts
        or function.__code__.co_names != other.__code__.co_names
    ]
    assert changed, "nothing is broken"
    try:
        for function, _, new in changed:
            function.__code__ = new
        yield
    finally:
        for function, before, _ in changed:
            function.__code__ = before


def _functions(where: Any, broken: Any) -> Iterator[tuple[FunctionType, FunctionType]]:
    if isinstance(where, FunctionType):
        yield where, broken
        return
    for name, value in vars(where).items():
        other = vars(broken).get(name)
        if isinstance(value, FunctionType):
            yield value, other
        elif isinstance(value, property):
            getter, changed = value.fget, other.fget
            assert isinstance(getter, FunctionType)
            yield getter, changed
