"""Lines of what changes the voters of a cluster, broken one at a time: seeds have to notice each.

A bug that does no harm proves nothing, so none is listed that others make up for:

- Programs that are idle and are told of no change, or that ask at no other address when all voters
  that they know are gone: each of the two makes up for the other.
- A number that is closed and answered by nothing: programs hear of the next one in other ways.

Those of the values alone are in the tests of the leased lock; here are the disks, links, handshakes
and programs around them, and some of the values as they run between these.
"""

from __future__ import annotations

from coterie.cluster.change import formation
from coterie.cluster.change.host import Change
from coterie.cluster.client.participant import ParticipantHost
from coterie.cluster.membership import Membership
from coterie.cluster.voter import recovery
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.node import Node
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.handshake import Credentials
from coterie.mutex.quorum.leased.changer import Changer
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
    "the identity of a disk is drawn at each start": Bug(
        Storage,
        "        if not identity:\n",
        "        if True:\n",
        "change-crashes",
        first=14,
    ),
    "an empty disk is not told that it is no voter's": Bug(
        recovery._learn,  # noqa: SLF001 - to be broken
        "if talk.number > 0:",
        "if False:",
        "change-disks",
        first=2,
    ),
    "a node that stands aside goes on with its timer": Bug(
        Voter,
        "        if self.configuration is None:\n            return  # it has stood",
        "        if False:\n            return  # it has stood",
        "new-disks",
    ),
    # Links and handshakes
    "newcomers are not called": Bug(
        ParticipantHost,
        "            if is_new:\n                self.lines[voter].start()",
        "            if is_new and membership is self.membership:\n"
        "                self.lines[voter].start()",
        "changes",
    ),
    "configurations of other numbers are refused": Bug(
        Credentials,
        "if number != self.number or configuration == self.configuration:",
        "if configuration == self.configuration:",
        "changes",
    ),
    "a node shows the number of its file": Bug(
        Node,
        "return self.voting.membership.credentials(",
        "return self.config.membership.credentials(",
        "changes",
        first=14,
    ),
    "a node shows the configuration of its file": Bug(
        VoterHost,
        "MembershipReply(msgspec.msgpack.encode(self.membership))",
        "MembershipReply(msgspec.msgpack.encode(self._founded))",
        "changes",
        first=14,
    ),
    "a node adopts nothing": Bug(
        VoterHost,
        "self.host.step(self.voter.adopt, configuration)",
        "pass",
        "changes",
        first=14,
    ),
    "voters are found by place and not by number": Bug(
        Membership,
        "return self.members[self.seats.index(seat)]",
        "return self.members[(seat - 1) % len(self.members)]",
        "changes",
        first=14,
    ),
    "a voter that was left is called for good": Bug(
        ParticipantHost,
        "self._tasks.run(line.stop())",
        "pass",
        "changes",
    ),
    "the last word of a voter that is left makes no sense": Bug(
        ParticipantHost,
        "is_left = voter not in sessions.voters",
        "is_left = False",
        "changes",
    ),
    "a changer hears nothing": Bug(
        Change,
        "            self._host.receive(seat, answer)",
        "            pass",
        "changes",
        first=14,
    ),
    "identities are not asked for when a cluster forms": Bug(
        formation.forming_goal,
        "Member(seat, member.name, condition.identity, str(member.address))",
        'Member(seat, member.name, "", str(member.address))',
        "changes",
        first=14,
    ),
    # Counting
    "the joint step is left out": Bug(
        Changer,
        "if direct.rule.meets(mine.rule):",
        "if True:",
        "changes",
        first=14,
    ),
}
