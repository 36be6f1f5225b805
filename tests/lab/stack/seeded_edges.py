"""Lines that keep a cluster safe at its edges, broken one at a time: seeds have to notice each.

The edges are other installations, files that were edited, operators that act at the same time, programs
that were idle, nodes that were renumbered, programs that die where others see it, and machines that are off without a word. Two bugs of this kind stand elsewhere: a hello that comes with the end of a TLS handshake
and letters for a node that is back in `seeded_bugs.py`, with a site that locks while another one releases.
"""

from __future__ import annotations

from coterie.algorithms.mutex.quorum.leased.changer import Changer
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
from coterie.algorithms.mutex.quorum.leased.sessions import Sessions, Uplink
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.cluster.change import force as force_command
from coterie.cluster.change import survey
from coterie.cluster.change.force import force
from coterie.cluster.classic.node import Classic
from coterie.cluster.voter.deaths import DeathDesk
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.wire.calls import CallRound
from coterie.cluster.wire.handshake import Credentials
from coterie.cluster.wire.places import Places
from tests.lab.stack.seeded_bugs import Bug

EDGES: dict[str, Bug] = {
    "installations are not told apart in the handshake": Bug(
        Credentials,
        "return bool(self.identity and identity) and identity != self.identity",
        "return False",
        "installations",
        first=2,
    ),
    "what another installation has decided is adopted": Bug(
        Configuration,
        "return other.cluster_identity != self.cluster_identity",
        "return False",
        "installations",
        first=1,
    ),
    "the abstention of a longer lease is forgotten": Bug(
        Voter,
        "self.abstention = max(self.abstention, _abstention(self.configuration.rule))",
        "self.abstention = _abstention(self.configuration.rule)",
        "edited-files",
    ),
    "two operators who force draw one number": Bug(
        force,
        "system.random().randint(1, LEAPS_MAX)",
        "1",
        "two-forces",
        first=18,
    ),
    "a force goes on while nodes with the disks of others answer": Bug(
        force_command._check_given_up,  # noqa: SLF001
        "if each.condition and (each.is_meant or each.condition.configuration is not None)",
        "if each.condition and each.is_meant",
        "misplaced-disks",
    ),
    "a changer asks as seldom as a long lease has heartbeats": Bug(
        Changer,
        "min(self.configuration.settings.heartbeat / POLLS_PER_HEARTBEAT, POLL_SECONDS_MAX)",
        "self.configuration.settings.heartbeat / POLLS_PER_HEARTBEAT",
        "huge-times",
    ),
    "the vouch of a start that gave no vote is forgotten": Bug(
        VoterHost,
        "if storage.is_vouched:",
        "if self._new_cluster:",
        "shutdowns",
        first=9110082,
    ),
    "an election asks no node for a sign of life": Bug(
        Classic,
        "self.peers[peer].probe()",
        "pass",
        "leaders",
        first=38,
    ),
    "a session that was idle counts as silent": Bug(
        Sessions,
        "elif not uplink.silent and uplink.sent + self.settings.heartbeat <= out.now:",
        "elif False:",
        "once-per-lease",
    ),
    "a session that was idle is asked for a sign of life after half a hedge": Bug(
        Sessions,
        "ends_early = uplink.lease < out.now + 1.5 * self.settings.hedge",
        "ends_early = False",
        "once-per-lease",
    ),
    "a request that gets no answer puts the heartbeat off": Bug(
        Uplink,
        "return self.unacked[0].sent if is_first else self.sent",
        "return self.sent",
        "impatience",
    ),
    "a node is called where it is on record alone": Bug(
        Places,
        "return list(dict.fromkeys([*certain, *recorded, *unknown, *met]))",
        "return list(recorded)",
        "renumbering",
        first=1,
    ),
    "a node is called at one address after the other": Bug(
        CallRound,
        "pause = STAGGER_SECONDS",
        "pause = 60.0",
        "renumbering",
    ),
    "status looks for a voter where it is on record alone": Bug(
        survey._ask_all,  # noqa: SLF001
        "elsewhere = [each for each in visit.places.met(member.name, disk) if each != member.address]",
        "elsewhere = []",
        "renumbering",
    ),
    "nobody ends the session of a dead program": Bug(
        DeathDesk, "self._bury(identity, life)", "pass", "witnesses"
    ),
    "a program that was started again is not asked about its former life": Bug(
        DeathDesk,
        "self._programs.send(number, AskDeath(tuple(lives[:LIVES_MAX])))",
        "pass",
        "witnesses",
        first=3,
    ),
    "other nodes are not asked about a program of their machine": Bug(
        DeathDesk,
        'await self._ask_nodes(lives, lambda life, node: self._end(life, f"node {node}"))',
        "pass",
        "witnesses",
    ),
    "a program without a connection is taken for dead": Bug(
        DeathDesk,
        "self._missing[link.life] = None\n",
        'self._end(link.life, "nobody")\n',
        "witnesses",
        first=8,
    ),
}
