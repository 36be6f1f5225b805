"""Lines of what changes the voters of a cluster, broken one at a time: seeds have to notice each.

A bug that does no harm proves nothing, so none is listed that others make up for. Those of the values
alone are in the tests of the leased lock; here are the disks, links, handshakes and programs around
them, and some of the values as they run between these.
"""

from __future__ import annotations

from coterie.cluster.change import formation
from coterie.cluster.change.host import Change
from coterie.cluster.client.participant import ParticipantHost
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.recovery import _learn
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.handshake import Credentials
from coterie.cluster.wire.link import Link
from coterie.mutex.quorum.leased.changer import Changer
from coterie.mutex.quorum.leased.participant import Participant
from coterie.mutex.quorum.leased.sessions import Sessions
from coterie.mutex.quorum.leased.succession import Succession
from coterie.mutex.quorum.leased.voter import Voter
from tests.stack.seeded_bugs import Bug

CHANGES: dict[str, Bug] = {
    # Disks
    "a configuration is not saved": Bug(
        Voter,
        "        self._merge(configuration.floor)\n        self._save(out)",
        "        self._merge(configuration.floor)",
        "change-crashes",
    ),
    "promises are not saved": Bug(
        Voter,
        "promise = self.succession.prepare(frame, self._present())\n"
        "                    self._save(out)",
        "promise = self.succession.prepare(frame, self._present())",
        "change-crashes",
    ),
    "what was accepted is not saved": Bug(
        Voter,
        "answer = self.succession.accept(frame, self._present(), self.protocol)\n"
        "                    self._save(out)",
        "answer = self.succession.accept(frame, self._present(), self.protocol)",
        "change-crashes",
    ),
    "a disk is not told from another under the same name": Bug(
        Link,
        "if self._disk and disk != self._disk:",
        "if False:",
        "change-disks",
    ),
    "a disk that is no voter's takes over a configuration": Bug(
        Voter,
        "if self.number > 0 or not self.identity:",
        "if True:",
        "change-disks",
    ),
    "the identity of a disk is drawn at each start": Bug(
        Storage,
        "        if not identity:\n",
        "        if True:\n",
        "change-crashes",
    ),
    "a memory of another configuration is used": Bug(
        Storage,
        "if is_comparable and memory.configuration == configuration:",
        "if is_comparable:",
        "change-crashes",
    ),
    "a node without a disk that knows asks no other for the configuration": Bug(
        _learn,
        "if talk.number > 0:",
        "if False:",
        "change-disks",
    ),
    # Links and handshakes
    "newcomers are not called": Bug(
        ParticipantHost,
        "                self._call_voters(self.membership.after(configuration))",
        "                pass",
        "changes",
    ),
    "a changer does not call newcomers": Bug(
        Change,
        "                self._call()\n                self._stepped(configuration)",
        "                self._stepped(configuration)",
        "changes",
    ),
    "configurations of other numbers are refused": Bug(
        Credentials,
        "if number != self.number or configuration == self.configuration:",
        "if configuration == self.configuration:",
        "changes",
    ),
    "a voter that was left is called for good": Bug(
        ParticipantHost,
        "self._tasks.run(self.lines.pop(voter).stop())",
        "pass",
        "changes",
    ),
    "idle programs are told nothing": Bug(
        VoterHost,
        "            for number in programs:\n",
        "            for number in ():\n",
        "changes",
    ),
    "a program that has lost all voters asks no other address": Bug(
        ParticipantHost,
        "            if self.reaches_a_quorum():\n",
        "            if True:\n",
        "change-pauses",
    ),
    "the identity of a newcomer is ignored": Bug(
        formation.forming_goal,
        "Member(seat, member.name, condition.identity, str(member.address))",
        'Member(seat, member.name, "", str(member.address))',
        "changes",
    ),
    "a cluster forms without a node": Bug(
        formation.forming_goal,
        '            raise NotFormed(f"node {member.name!r} cannot be asked: {error}") from None',
        "            continue",
        "change-crashes",
    ),
    # Counting
    "old numbers are served for good": Bug(
        Voter,
        "rule = None if frame.number <= self.closed else mine.rule_of(frame.number)",
        "rule = mine.rule_of(frame.number) or mine.rule",
        "change-pauses",
    ),
    "frames of a closed number are dropped without an answer": Bug(
        Voter,
        "            out.send(sender, Stale(mine))",
        "            pass",
        "changes",
    ),
    "a voter that is behind is not brought up": Bug(
        Participant,
        "            out.send(voter, NewConfiguration(newest))\n",
        "",
        "changes",
    ),
    "the joint step is left out": Bug(
        Changer,
        "if direct.rule.meets(mine.rule):",
        "if True:",
        "changes",
    ),
    "a number counts as finished at once": Bug(
        Voter,
        "return self.closed >= number and not self.abstains() and self._is_past(number)",
        "return True",
        "change-pauses",
    ),
    "a restarted voter serves what was closed": Bug(
        Voter,
        "        self.closed = self.number - 1\n",
        "",
        "change-crashes",
    ),
    "a lease of an earlier number is kept after a move": Bug(
        Sessions,
        "uplink.lease = min(uplink.lease, now + settings.lease)",
        "pass",
        "change-crashes",
    ),
    "promises are ignored": Bug(
        Succession,
        "        if self.promised is not None and attempt < self.promised:\n",
        "        if False:\n",
        "change-crashes",
    ),
}
