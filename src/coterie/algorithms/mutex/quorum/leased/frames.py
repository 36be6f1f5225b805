"""What travels: frames of the sessions, the lock messages in their bodies, and configurations.

A session belongs to one participant and one voter and carries all their locks. Upward means from
the participant to the voter. All lock messages that one step creates for a peer share a frame, or
follow each other in several if they are very many.

A frame of a session says in which number its participant counts, and which is the newest it knows.
What is about configurations alone travels outside of sessions, and any process may send it.

New fields stand at the end and have defaults: a decoder that does not know them skips them.

The types say which values a message may have at all, and decoders refuse others. What a value means
is checked by its receiver against what it knows.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
from coterie.algorithms.mutex.quorum.leased.stored import StoredValue
from coterie.process import Payload

BODIES_MAX = 10_000  # in one frame: some megabytes, however long the names are
LISTED_MAX = 1_000  # values, without their data
NUMBER_MAX = (1 << 63) - 1  # that can be encoded wherever a number travels

Number: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Name: TypeAlias = Annotated[str, Meta(max_length=512)]
LifeName: TypeAlias = Annotated[str, Meta(max_length=512)]  # of the processes of a program
Level: TypeAlias = Annotated[int, Meta(ge=0, le=2)]

# A life ends with a space and the processes. One without these says where a program is whose
# processes are not all known yet: nothing is ever taken for its end.


def is_whole(life: str) -> bool:
    """Return whether a life names the processes of a program, and not only the machine so far."""
    return bool(life) and not life.endswith(" ")


# Lock messages. Each names the lock and the number of the request that it is about.


class Body(Payload, frozen=True):
    """Base of the lock messages."""

    lock: Name
    number: Number

    def __str__(self) -> str:
        """Write the kind and the values."""
        values = ", ".join(str(getattr(self, name)) for name in self.__struct_fields__)
        return f"{type(self).__name__}({values})"


class Request(Body, frozen=True):
    """May I have your vote? Repeating it is harmless: it may raise `hold` and change `writer`."""

    age: Number  # stamp of the first issue; with the participant's name the order of requests
    stamp: Number  # tokens begin here if nothing stands against it; the token itself in a repair
    hold: Level = 0  # 1: repair of a hold; 2: the same, and a valid quorum supports it without you
    shared: bool = False  # others that share may have it beside me
    writer: Number = 0  # age of a task of mine that waits behind this to have it alone; 0: none

    def __str__(self) -> str:
        """Write the mode only where it is not the usual one."""
        values = f"{self.lock}, {self.number}, {self.age}, {self.stamp}, {self.hold}"
        writer = f", before {self.writer}" if self.writer else ""
        return f"Request({values}{', shared' if self.shared else ''}{writer})"


class Yield(Body, frozen=True):
    """I give the vote back, have not entered with it, and stay in the queue."""

    used: Number  # the highest token that I have used


class Release(Body, frozen=True):
    """I give the vote back, or withdraw the request."""

    used: Number


class Raise(Body, frozen=True):
    """Move my interval up, so that it contains this token."""

    token: Number


class Grant(Body, frozen=True):
    """You have my vote: the right to these tokens, as long as our session lives."""

    low: Number
    high: Number
    more: bool  # others wait


class Raised(Body, frozen=True):
    """Your interval is this now."""

    low: Number
    high: Number


class Inquire(Body, frozen=True):
    """A request waits (level 1); an older one than yours, or a repair, waits (level 2).

    To an owner that shares also: none waits any more (level 0).
    """

    level: Level


class Revoke(Body, frozen=True):
    """An operator has ended your hold: stop, and give the vote back."""

    token: Number = NUMBER_MAX  # the hold that was seen had no larger one; later ones go on


# Values (21). Of a lock without one nothing of this is ever sent.


class Write(Body, frozen=True):
    """Keep this as the value of the lock, which is mine alone."""

    value: StoredValue


class Fetch(Body, frozen=True):
    """Your report was without the data: what is it?"""


class Forget(Body, frozen=True):
    """All voters know that the value was deleted by this version, so none of them need keep that."""

    token: Number
    sequence: Number


class Report(Body, frozen=True):
    """The value that you find with my vote; it comes before the Grant, or answers a Fetch."""

    value: StoredValue
    whole: bool = True  # False: the data is more than comes along with a vote


class Written(Body, frozen=True):
    """The value of this version is on my disk, or there is no room for it."""

    token: Number
    sequence: Number
    refusal: Annotated[str, Meta(max_length=512)] = ""


class Settle(Body, frozen=True):
    """A program reads the value, and voters differ: decide it, as you have the lock."""


UpBody: TypeAlias = Request | Yield | Release | Raise | Write | Fetch | Forget
DownBody: TypeAlias = Grant | Raised | Inquire | Revoke | Report | Written | Settle

# Frames


class SessionName(
    msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """Which session a frame belongs to."""

    participant: Name  # a name that no other start of any process has had
    number: Number  # chosen by the participant, rising
    nonce: Name | None = None  # chosen by the voter; None until the participant knows it

    def __str__(self) -> str:
        """Write what people need."""
        return f"{self.participant}#{self.number}"


class Data(Payload, frozen=True):
    """Lock messages upward."""

    session: SessionName
    seq: Number
    ack: Number  # the last frame of the other direction that was delivered
    clock: Number  # Lamport's
    time: float  # of sending, by the participant's clock
    bodies: Annotated[tuple[UpBody, ...], Meta(max_length=BODIES_MAX)]
    number: Number = 0  # of the configuration in which the participant counts
    known: Number = 0  # the newest that it knows
    life: LifeName = (
        ""  # of the participant, in frames that open a session; empty: none knows its end
    )


class Beat(Payload, frozen=True):
    """Nothing new; are you there? The answer renews the lease."""

    session: SessionName
    ack: Number
    clock: Number
    time: float
    number: Number = 0
    known: Number = 0
    life: LifeName = ""


class Probe(Payload, frozen=True):
    """Does the session still exist? It renews nothing."""

    session: SessionName
    number: Number = 0
    known: Number = 0


class Term(Payload, frozen=True):
    """I count votes of this session for this lease only, so you may expire it sooner.

    One that gets lost does no harm: the session then expires by the lease of all, which is longer.
    """

    session: SessionName
    lease: float


class Bye(Payload, frozen=True):
    """I end in good order and count none of your votes any more."""

    session: SessionName


class Obituary(Payload, frozen=True):
    """The program of this participant is gone: a process of the same kernel has seen its end (20)."""

    participant: Name
    life: LifeName  # that has ended


class Reply(Payload, frozen=True):
    """Lock messages downward."""

    session: SessionName
    seq: Number
    ack: Number
    clock: Number
    echo: float  # the latest sending time that the voter has seen in this session
    grace: bool  # the voter has restarted and gives no votes yet
    bodies: Annotated[tuple[DownBody, ...], Meta(max_length=BODIES_MAX)]
    number: Number = 0  # the highest that the participant has stated to count in


class Ack(Payload, frozen=True):
    """Nothing new; I have heard you."""

    session: SessionName
    ack: Number
    clock: Number
    echo: float
    grace: bool
    number: Number = 0


class Answer(Payload, frozen=True):
    """The session that was probed exists, or does not."""

    session: SessionName
    alive: bool


class Nack(Payload, frozen=True):
    """I do not know this session."""

    session: SessionName


# Reading without the lock (21.7)


class Look(Payload, frozen=True):
    """What is the value of the lock, on your disk? The data is not needed if it is of this version."""

    question: Number
    lock: Name
    number: Number  # of the configuration in which the reader counts
    known: Number  # the newest that it knows
    token: Number = 0
    sequence: Number = 0
    settles: bool = False  # voters have differed: let who has the lock decide


class Seen(Payload, frozen=True):
    """It is this."""

    question: Number
    lock: Name
    value: StoredValue
    whole: bool = True  # False: it is the version that you know


# Configurations


class NewConfiguration(Payload, frozen=True):
    """This has been decided. A voter that knows no newer one adopts it; a participant notes it."""

    configuration: Configuration


class Behind(Payload, frozen=True):
    """Your frame counts in a number that I do not know yet; this one is mine. I have ignored it."""

    number: Annotated[int, Meta(ge=-1, le=NUMBER_MAX)]  # -1: none at all


class Stale(Payload, frozen=True):
    """Your frame counts in a number that I serve no more. I have ignored it; this one is mine."""

    configuration: Configuration


# The next number is decided by the voters of the present one: Lamport's Paxos for each number.


class Attempt(msgspec.Struct, frozen=True, array_like=True, order=True):
    """An attempt of one changer to decide a number; later rounds go before earlier ones."""

    round: Number
    changer: Name


class Proposal(msgspec.Struct, frozen=True, array_like=True):
    """What a voter has accepted."""

    attempt: Attempt
    configuration: Configuration


class Query(Payload, frozen=True):
    """What is your configuration, and how far are your participants?"""


class Condition(Payload, frozen=True):
    """Where a voter stands."""

    configuration: Configuration | None  # None: it is a spare
    lagging: Number  # sessions that count in an earlier number than its own
    abstains: bool
    identity: Name = ""  # of its disk; empty: it has none
    protocol: Number = 0  # the highest version that its software speaks, and its participants
    slowest: Name = ""  # the participant that speaks no higher one; empty: it is its own software
    is_old: bool = False  # its disk was written before disks had identities
    is_witness: bool = False  # it says which programs of its machine have ended, when it is asked


class Close(Payload, frozen=True):
    """Serve this number and all before it no more."""

    number: Number


class Closed(Payload, frozen=True):
    """It is served no more; `finished`: and no participant counts a vote of mine by it, ever again."""

    number: Number
    finished: bool
    bound: Number  # no token above it was handed out so far


class Prepare(Payload, frozen=True):
    """Promise to accept nothing of an earlier attempt as the successor of this number."""

    number: Number
    attempt: Attempt


class Promise(Payload, frozen=True):
    """Promised; this was accepted before, and this is what I know of my number."""

    number: Number
    attempt: Attempt
    accepted: Proposal | None
    configuration: Configuration


class Accept(Payload, frozen=True):
    """Let this be the successor of your number."""

    attempt: Attempt
    configuration: Configuration


class Accepted(Payload, frozen=True):
    """It is, as far as it depends on me."""

    number: Number  # that of the successor
    attempt: Attempt


class Refused(Payload, frozen=True):
    """I have promised a later attempt, or the proposal breaks a rule."""

    number: Number
    promised: Attempt | None


# Values are carried from the voters of a number that is finished to those of the present one (21.8).


class ListValues(Payload, frozen=True):
    """Which values do you have, from the first name after this one on? If you have adopted that number."""

    number: Number
    after: Name = ""


class ValueList(Payload, frozen=True):
    """These, without their data, in the order of their names; `more`: and others after them."""

    after: Name
    values: Annotated[tuple[tuple[Name, StoredValue], ...], Meta(max_length=LISTED_MAX)]
    more: bool


class GetValue(Payload, frozen=True):
    """What is the value of this lock?"""

    lock: Name


class ValueFound(Payload, frozen=True):
    """It is this."""

    lock: Name
    value: StoredValue


class CopyValue(Payload, frozen=True):
    """Keep this value, unless you have a later one, as long as that number is open."""

    number: Number
    lock: Name
    value: StoredValue


class ValueCopied(Payload, frozen=True):
    """My value of this lock has this version now."""

    number: Number
    lock: Name
    token: Number
    sequence: Number


Session: TypeAlias = Data | Beat | Probe | Term | Bye
Downward: TypeAlias = Reply | Ack | Answer | Nack | Behind | Stale | NewConfiguration | Seen
Carriage: TypeAlias = ListValues | GetValue | CopyValue
Ask: TypeAlias = Query | Close | Prepare | Accept | Carriage  # of a changer to a voter
Tell: TypeAlias = (  # and back
    Condition | Closed | Promise | Accepted | Refused | ValueList | ValueFound | ValueCopied
)
Upward: TypeAlias = Session | NewConfiguration | Ask | Obituary | Look
Frame: TypeAlias = Session | Downward | Ask | Tell | Obituary | Look
