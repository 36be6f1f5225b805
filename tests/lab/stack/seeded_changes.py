"""Lines of what changes the voters of a cluster, broken one at a time: seeds have to notice each.

A bug that does no harm proves nothing, so none is listed that others make up for:

- Programs that are idle and are told of no change, or that ask at no other address when all voters
  that they know are gone: each of the two makes up for the other.
- A node with an empty disk that is not told, while it recovers, that the disk is no voter's: by its
  file it asks again and again. That is tested in `tests/cluster/test_lost_disks.py`.
- A number that is closed and answered by nothing: programs hear of the next one in other ways.
- A closed number that is served on: a voter reports it as finished only when no session of it is left,
  and behind each answer stands the newer configuration, by which a program moves that holds nothing. If
  all numbers are served for good, some seeds see a quorum that serves one that is over (`finished`), but
  too few to be listed.
- A voter that was left and is called for good: if it is a voter again under another seat, its node
  closes the two connections of a program in turn, and sessions go on over either.
- A link that takes any disk for the one that is meant: a node with another one is a spare until a
  configuration names that disk (`Voter._concerns`), under a seat of its own, and the numbers of the
  seat that was lost are finished before. A node that takes the place of a lost disk by its name alone
  is refused by the links in turn.
- A changer that talks to any disk: spares decide nothing, for the same reason.
- A memory of another configuration than the one on disk: it is written last at an orderly end and
  taken away first at a start, so the two are always of one number.
- A removed voter that answers: no rule of a later number counts it, and an earlier one is finished
  only when voters in each of its quorums have closed it.
- A newcomer that votes at once: it has given no votes before. A voter that has is listed.

Those of the values alone are in the tests of the leased lock; here are the disks, links, handshakes
and programs around them, and some of the values as they run between these.
"""

from __future__ import annotations

from coterie.algorithms.mutex.quorum.leased.changer import Changer
from coterie.algorithms.mutex.quorum.leased.configuration import Rule
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.cluster.change import formation
from coterie.cluster.change.host import Change
from coterie.cluster.client.participant import ParticipantHost
from coterie.cluster.membership.membership import Membership
from coterie.cluster.node import Node
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.handshake import Credentials
from tests.lab.stack.seeded_bugs import Bug

CHANGES: dict[str, Bug] = {
    # Disks
    "a configuration is not saved": Bug(
        Voter,
        "        self._merge(configuration.floor)\n        self._save_all(out)",
        "        self._merge(configuration.floor)",
        "change-crashes",
    ),
    "a promise is not saved": Bug(
        Voter,
        "promise = self.succession.prepare(frame, self._present())\n"
        "                    self._save_succession(before, out)",
        "promise = self.succession.prepare(frame, self._present())",
        "change-crashes",
        first=1,
    ),
    "an acceptance is not saved": Bug(
        Voter,
        "answer = self.succession.accept(frame, self._present(), self.protocol)\n"
        "                    self._save_succession(before, out)",
        "answer = self.succession.accept(frame, self._present(), self.protocol)",
        "change-crashes",
        first=1,
    ),
    "the identity of a disk is drawn at each start": Bug(
        Storage,
        "        if not identity:\n",
        "        if True:\n",
        "change-crashes",
        first=62,
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
        "            if is_new:\n                self.links[voter].start()",
        "            if is_new and membership is self.membership:\n"
        "                self.links[voter].start()",
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
        first=28,
    ),
    "identities are not asked for when a cluster forms": Bug(
        formation.forming_goal,
        "Member(seat, member.name, condition.identity, str(member.address))",
        'Member(seat, member.name, "", str(member.address))',
        "changes",
        first=28,
    ),
    # Deciding
    "what others have accepted is not proposed": Bug(
        Changer,
        "self.proposal = latest.configuration",
        "pass",
        "change-crashes",
        first=3,
    ),
    # Finishing
    "a number is finished while sessions count by it": Bug(
        Voter,
        "return not rests and all(link.number > number for link in self.sessions.values())",
        "return not rests",
        "change-pauses",
    ),
    "one voter finishes a number for all": Bug(
        Changer,
        "is_finished = rule.is_blocked_by([finish.voter for finish in ends])",
        "is_finished = bool(ends)",
        "change-pauses",
        first=26,
    ),
    # Counting
    "a joint step counts the old voters alone": Bug(
        Rule,
        "        if len(self.parts) == 1:",
        "        if True:",
        "change-pauses",
    ),
    "the joint step is left out": Bug(
        Changer,
        "if direct.rule.meets(mine.rule):",
        "if True:",
        "changes",
        first=28,
    ),
}
