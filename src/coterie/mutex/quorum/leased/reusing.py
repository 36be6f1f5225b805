"""Taking a kept lock again, keeping it again, and passing it on (5.2, 5.7, end of 5).

Whoever works on a lock that nobody else wants takes it many thousand times a second. As long as
nothing has happened to the votes in hand, a glance at them tells that the rules would come to this
result: nothing to send, nothing to arm, no hold that has lapsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.mutex.quorum.leased.bid import State
from coterie.mutex.quorum.leased.keeping import Keeper

if TYPE_CHECKING:
    from coterie.mutex.quorum.leased.bid import Bid
    from coterie.mutex.quorum.leased.frames import Frame
    from coterie.process import Outbox, ProcessId


class Reuser(Keeper):
    """The rules for votes that are in hand. Where a glance does not do, the general ones decide."""

    def again(self, lock: str, now: float, *, shared: bool = False) -> int:
        """Take a kept lock and give the token; 0, and nothing done, if a glance does not do."""
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.CACHED or bid.shared is not shared:
            return 0
        token = bid.token + 1
        if not self._is_sound(bid, token, now):
            return 0
        self._begin(lock, token)
        return token

    def _take_again(self, lock: str, out: Outbox[Frame], *, shared: bool) -> None:
        """5.2: the votes are in hand, so no message is needed unless they have lapsed.

        17: nor are they of use in the other mode. Exclusive ones would keep out others who share.
        """
        bid = self.bids[lock]
        token = self._fit(lock, out) if bid.shared is shared else None
        if token:
            self._enter(lock, token, out)
        elif token == 0:
            bid.state = State.WAIT
            self.cached.discard(lock)
            self._raise(lock, out)
        else:
            self._release_all(lock)
            self._ask_anew(lock, out, shared=shared)

    def keep(self, lock: str, now: float) -> bool:
        """Leave a hold and keep its votes; False, and nothing done, if a glance does not do."""
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.HELD or self._is_spoiled(bid):
            return False
        if len(self.cached) >= self.settings.cached_max:
            return False
        enough = bid.token + self.settings.interval // 2  # tokens are left; else more are fetched
        if not self._is_sound(bid, enough, now):
            return False
        self._put_by(lock, now)
        return True

    def pass_on(self, lock: str, now: float, *, shared: bool = False) -> int:
        """End a hold and begin the next with the same votes, for another task of this process.

        Gives the token; 0, and nothing done, if a glance does not do. Others may wait meanwhile
        (end of section 5), so whoever calls this has to bound how often and how long.
        """
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.HELD or bid.lost or bid.repaired:
            return 0
        if bid.shared is not shared:
            return 0
        token = bid.token + 1
        if not self._is_sound(bid, token, now):
            return 0
        self._begin(lock, token)
        return token

    def is_wanted(self, lock: str) -> bool:
        """Tell whether another participant is known to wait for what we hold or keep."""
        bid = self.bids.get(lock)
        return bid is not None and bid.wanted

    def shares(self, lock: str) -> bool:
        """Tell whether what we ask for, hold or keep is in shared mode."""
        bid = self.bids.get(lock)
        return bid is not None and bid.shared

    def _is_sound(self, bid: Bid, token: int, now: float) -> bool:
        """Tell whether no hold has lapsed, and a quorum of the votes in hand supports the token.

        They last as long as everything that the timer is set for, so it need not be set anew.
        """
        sound_until = self.sound_until
        if now >= sound_until:
            return False
        sound: list[ProcessId] = []
        for voter, uplink in enumerate(self.sessions.uplinks, 1):
            vote = bid.shares[voter - 1].vote
            if vote and vote.low <= token <= vote.high and uplink.lease >= sound_until:
                sound.append(voter)
        everybody = len(bid.shares)
        return len(sound) == everybody or self.settings.quorums.contains_quorum(sound)
