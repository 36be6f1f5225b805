"""The leased quorum lock: votes with leases, fencing tokens and lazy release, over any coterie.

How to embed it. `Participant` and `Voter` are values that handle any number of named locks over one
session per pair. Whoever runs them owns the sockets, the clock and the file:

    participant = make_participant(settings, home)    home: the voter whose quorum is asked first
    voter = Voter(settings)

    participant.start(name, out)        once; `name` is random and new with every process start
    voter.start(name, out)              the same; reads `out.saved`

    participant.acquire(lock, out)      then wait for `Acquired(lock, token)` among out.events; it
                                        comes within the step if the votes are still in hand
    participant.release(lock, out)      also after `Lost(lock, token)`, when the body has ended
    participant.withdraw(lock, out)     cancel or time-out of one that waits
    participant.close(out)              orderly end, nothing held: voters need not wait for expiry

    participant.receive(voter_id, frame, out)     frames Reply, Ack, Answer, Nack
    voter.receive(peer_id, frame, out)            frames Data, Beat, Probe, Bye
    participant.connected(voter_id, out)          a new connection stands: unanswered frames go again
    voter.connected(participant_name, out)        the same at the other end
    participant.ring(PARTICIPANT, out), voter.ring(VOTER, out)     their one timer each has run out

    participant.valid(lock, now), participant.remaining(lock, now)    from the clock, not a flag

Every call takes an `Outbox` whose `now` was read from a monotonic clock that counts time while the
machine sleeps, just before the call; frames carry it as their time of sending. Afterwards carry the
outbox out in the order save, send, arm, tell. `out.save` (by voters, seldom) must be on disk before
the frames leave. A process that has slept delivers what has arrived before it lets timers ring.
Frames may be lost, doubled, late or out of order; within one connection they should be in order.
Participants are told apart by the name in the frames; `peer_id` only says where answers go.
"""

from __future__ import annotations
