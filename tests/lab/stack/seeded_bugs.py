"""Lines of the stack, broken one at a time: a range of seeds has to notice each.

A bug that does no harm proves nothing, so none is listed that others make up for:

- A voter that sends nothing again over a new connection: the next frame of the participant finds its
  answers overdue, and they are sent then. One that *forgets* what was not acknowledged is listed.
- A voter that takes the end of an old connection for that of the new one: the program has no answer for
  a lease, calls again, and goes by the other voters until then. `tests/cluster/test_links.py` has it.
- A coordinator or a site that takes what concerns another life of the other: links drop letters of
  a life that is over, before a site sees them. Those links are listed; what sites do without them is
  tested in `tests/transactions/test_site_lives.py`.
- A node with a new disk that does not count the tokens of the others as used: clocks follow the time and
  each frame carries one, so its numbers are above theirs as soon as it is spoken with.
"""

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
from coterie.algorithms.mutex.quorum.leased.ballot import Claim
from coterie.algorithms.mutex.quorum.leased.participant import Participant
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.cluster.classic.meeting import Meeting
from coterie.cluster.classic.node import Classic
from coterie.cluster.client.participant import ParticipantHost
from coterie.cluster.runtime.durable import replace
from coterie.cluster.runtime.host import Host
from coterie.cluster.store.log import StoreLog
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.hosted_voter import HostedVoter
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.link import Link
from coterie.cluster.wire.peers import Peer
from coterie.locks.leases.group import LeaseGroup
from coterie.transactions.site.coordinator import Coordinator

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Bug:
    """A piece of a class or a function, replaced, and the workload that notices."""

    where: Any
    old: str
    new: str
    workload: str
    seeds: int = 100  # from 0 on, in which it has to be noticed
    first: int = 0  # to be tried first, for it was noticed there
    details: str | None = None
    tls: bool = False


BUGS: dict[str, Bug] = {
    # Time
    "a hold outlasts its lease": Bug(
        LeaseGroup,
        "now < self._stock.sound_until or self._stock.valid(claim.lock, now)",
        "True",
        "pauses",
    ),
    "leases stand still while the machine sleeps": Bug(
        system.now,
        "_here.now()",
        "_here.monotonic()",
        "pauses",
    ),
    "sessions expire before their leases": Bug(
        Settings,
        "lease * (1 + self.rate_error) / (1 - self.rate_error) + self.margin",
        "lease / 2",
        "pauses",
    ),
    "no vote is abstained from after a restart": Bug(
        Voter, "if (out.saved or self.cautious) and", "if self.cautious and", "restarts"
    ),
    # Timers
    "a timer that is armed again rings twice": Bug(
        Host, "            armed.handle.cancel()", "            pass", "locks"
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
        first=48,
        seeds=300,
    ),
    # Disks
    "records are not appended": Bug(
        Host, "self._log.append(gathered.appended)", "pass", "store-disks"
    ),
    "a file is not synced": Bug(replace, "system.sync(file.fileno())", "pass", "restarts"),
    "a folder is not synced": Bug(
        replace, "    sync_folder(path.parent)", "    pass", "restarts", first=6
    ),
    "the bound is not saved": Bug(
        Host, "self._storage.save(out.to_save)", "pass", "restarts", first=6
    ),
    "votes leave before the disk has their bound": Bug(
        Host,
        "            if not self._save(out):\n                return\n",
        "            asyncio.get_running_loop().call_later(0.25, self._save, out)\n",
        "restarts",
        first=7,
    ),
    "sites speak before the disk has it": Bug(
        Host,
        "        gathered.sends += out.sends\n",
        "        for to, message in out.sends:\n            self._send(to, message)\n",
        "store-disks",
    ),
    "steps go on after the disk has failed": Bug(
        Host,
        "            self._fail(error)\n            return\n        self._let_out",
        "            pass\n        self._let_out",
        "store-disks",
        first=8,
    ),
    "a memory is used twice": Bug(
        Storage, "        self._memory.unlink()", "        pass", "restarts"
    ),
    "a memory is used after a reboot": Bug(
        Storage,
        "memory.boot == system.boot() and memory.written_at <= system.now()",
        "True",
        "shutdowns",
    ),
    "a log is not synced": Bug(
        StoreLog,
        "        self._syncer.begin(self._file.fileno(), done)",
        "        done(None)",
        "store-disks",
    ),
    "a log that was read is not put on disk": Bug(
        StoreLog,
        "        replace(path, sound)\n",
        "        with path.open('ab') as file:\n"
        "            file.truncate(len(sound))\n"
        "        sync_folder(self._folder)\n",
        "store-disks",
        first=9,
    ),
    "a log that was read is synced, as if no sync had failed before": Bug(
        StoreLog,
        "        replace(path, sound)\n",
        "        with path.open('ab') as file:\n"
        "            file.truncate(len(sound))\n"
        "            system.sync(file.fileno())\n"
        "        sync_folder(self._folder)\n",
        "store-disks",
    ),
    # Transactions over sites
    "a site locks while another one releases": Bug(
        Coordinator,
        "course.growing_late() if step.scheduler.prepare_releases_reads else []",
        "[]",
        "store-mixture",
        details="two-phase-locking/detection",
    ),
    # Frames and connections
    "what is split is lost": Bug(
        Connection,
        "            self._incoming.extend(view[rest:])",
        "            pass",
        "exclusive",
    ),
    "a frame that is joined to another is lost": Bug(
        Connection, "            start = end\n", "            start = len(view)\n", "classic"
    ),
    "a hello that comes with the end of a TLS handshake is dropped": Bug(
        Connection,
        "            self._keep_early(data)\n            return",
        "            return",
        "exclusive",
        first=3,
        tls=True,
    ),
    "frames leave in another order": Bug(
        Connection,
        "        outgoing, self._outgoing = self._outgoing, bytearray()",
        "        outgoing, self._outgoing = self._outgoing, bytearray()\n"
        "        first = 4 + LENGTH.unpack_from(outgoing)[0]\n"
        "        outgoing = outgoing[first:] + outgoing[:first]",
        "classic",
    ),
    "a broken link is not made again": Bug(
        Link, "        while True:", "        for _ in range(1):", "resets"
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
    "a restart of a peer is not noticed": Bug(
        Peer, "if self._life is not None and life != self._life:", "if False:", "classic-returns"
    ),
    "a start of a peer that was called is not noticed": Bug(
        Peer,
        "            self._meet(welcome.start, welcome.clock)\n",
        "            pass\n",
        "store-lives",
    ),
    "a call of a former life is taken for a restart": Bug(
        Peer,
        "return life != self._life and incarnation < self._incarnation",
        "return False",
        "store-lives",
        first=204,
    ),
    "letters for a node that is back are dropped": Bug(
        Peer,
        "(*self._unconfirmed, *self._waiting) if self._keeps_letters else ()",
        "()",
        "classic-rejoins",
        first=44,
    ),
    "a letter of a former life is taken": Bug(
        Peer,
        "        if life != self._life:\n            raise",
        "        if False:\n            raise",
        "store-lives",
    ),
    "a classic node that was restarted is let in": Bug(
        Classic,
        "if not self.tolerates_restarts or not incarnation:",
        "if False:",
        "classic-returns",
        first=3,
    ),
    "a classic node acts before the others let it in": Bug(
        Meeting,
        "(self.strangers and not self.returns)",
        "False",
        "classic-returns",
        first=242,
        seeds=500,  # about one in a hundred
        details="naimi-trehel/plain",
    ),
    "a node that is lost before all have met it is waited for": Bug(
        Meeting,
        "            self.strangers.discard(peer)\n",
        "",
        "classic-crashes",
        first=90685,
        details="token-ring/regenerating",
    ),
    "time in which a node does not run counts as the absence of others": Bug(
        Peer,
        "self._wait(seconds / WAITS, WAITS)",
        "self._wait(seconds, 1)",
        "classic-crashes",
        first=201190,
        details="token-ring/regenerating",
    ),
    "what is not acknowledged is lost with its connection": Bug(
        Voter,
        "    if link is not None:\n            self._send(link, link.unacked, out)",
        "    if link is not None:\n            link.unacked.clear()",
        "resets",
        first=2,
    ),
    # Voters and participants
    "a bound covers nothing": Bug(
        Voter, "        if tenure.high > self.bound:", "        if False:", "restarts", first=6
    ),
    "a node without a memory votes at once": Bug(
        HostedVoter,
        "            self.voter.abstains_until = math.inf",
        "            self.voter.abstains_until = float('-inf')",
        "new-disks",
        first=12,
    ),
    "a new disk votes as soon as it has heard from others": Bug(
        VoterHost,
        "self.voter.abstains_until = max(own, self._outlasts)",
        "self.voter.abstains_until = float('-inf')",
        "new-disks",
        first=178,
    ),
    "those that share pass those that waited before": Bug(
        Claim,
        "return (not self.hold, self.age, self.participant)",
        "return (not self.hold, not self.shared, self.age, self.participant)",
        "shared-line",
        first=1,
    ),
    "requests of idle programs seem old": Bug(
        ParticipantHost,
        "sessions.merge(self._time.read(sessions.clock))",
        "pass",
        "line",
    ),
    "numbers begin at zero without a disk": Bug(
        HostedVoter,
        "        by_time = self._number_by_time()",
        "        by_time = self.voter.settings.interval",
        "diskless",
        first=1,
    ),
    "a node without a disk votes at once": Bug(
        HostedVoter,
        "        if not out.saved and not self._new_cluster:\n            out.saved",
        "        if False:\n            out.saved",
        "diskless",
        first=1,
    ),
    "tokens begin again after a restart": Bug(
        Voter,
        "self.bound = self.floor = self.clock = saved.bound",
        "self.bound = saved.bound",
        "restarts",
    ),
    "a lease is counted from the answer": Bug(
        Participant,
        "return max(0.0, self._valid_until(bid) - now)",
        "return max(0.0, self._valid_until(bid) + 2 * self.settings.lease - now)",
        "pauses",
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
