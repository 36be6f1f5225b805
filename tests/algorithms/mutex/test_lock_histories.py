"""The checker of histories finds each way in which a lock can be none, and accepts what is in doubt."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.mutex.quorum.leased.bid import Bid
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from tests.algorithms.mutex.leased_kit import broken
from tests.algorithms.mutex.leased_promises import Breach, Promises
from tests.algorithms.mutex.leased_world import World
from tests.algorithms.mutex.lock_histories import (
    ACQUIRE,
    END,
    FENCED,
    MUTEX,
    REENTRANT,
    RELEASE,
    Call,
    Model,
    complaint,
    overlap,
)

if TYPE_CHECKING:
    from tests.algorithms.mutex.leased_faults import Node
    from tests.algorithms.mutex.leased_kit import Kit
    from tests.algorithms.mutex.leased_world import User

ALL = (MUTEX, REENTRANT, FENCED)


def accepted(model: Model, *history: Call) -> bool:
    return not complaint(history, model)


@pytest.mark.parametrize("model", ALL)
def test_one_after_the_other_is_accepted(model: Model) -> None:
    assert accepted(
        model,
        Call("a", ACQUIRE, 0, 1, token=5),
        Call("b", ACQUIRE, 0, 4, token=6),
        Call("a", RELEASE, 2, 3),
        Call("b", RELEASE, 5, 6),
    )


@pytest.mark.parametrize("model", ALL)
def test_two_inside_are_refused(model: Model) -> None:
    inside = Call("a", ACQUIRE, 0, 1, token=5), Call("b", ACQUIRE, 2, 3, token=6)
    assert not accepted(model, *inside)
    assert not accepted(model, *inside, Call("a", RELEASE, 4, 5)), "it was not released in between"


@pytest.mark.parametrize("model", ALL)
def test_a_release_has_its_effect_somewhere_in_its_call(model: Model) -> None:
    assert accepted(
        model,
        Call("a", ACQUIRE, 0, 1, token=5),
        Call("b", ACQUIRE, 2, 4, token=6),
        Call("a", RELEASE, 3, 9),
    )


@pytest.mark.parametrize("model", ALL)
@pytest.mark.parametrize("kind", [RELEASE, END])
def test_nobody_leaves_who_is_not_inside(model: Model, kind: str) -> None:
    assert not accepted(model, Call("a", kind, 0, 1))
    assert not accepted(model, Call("a", ACQUIRE, 0, 1, token=5), Call("b", kind, 2, 3))


def test_a_plain_mutex_is_not_entered_twice() -> None:
    twice = Call("a", ACQUIRE, 0, 1, token=5), Call("a", ACQUIRE, 2, 3, token=5)
    assert not accepted(MUTEX, *twice)
    assert accepted(REENTRANT, *twice)
    assert accepted(FENCED, *twice)


@pytest.mark.parametrize("model", [REENTRANT, FENCED])
def test_who_has_entered_twice_leaves_twice(model: Model) -> None:
    history = (
        Call("a", ACQUIRE, 0, 1, token=5),
        Call("a", ACQUIRE, 2, 3, token=5),
        Call("a", RELEASE, 4, 5),
        Call("b", ACQUIRE, 6, 7, token=6),
    )
    assert not accepted(model, *history)
    assert not accepted(model, *history, Call("a", RELEASE, 8, 9)), "which is too late"
    assert accepted(model, *history, Call("a", RELEASE, 6, 9)), "which may be in time"


@pytest.mark.parametrize("second", [4, 5])
def test_a_token_that_does_not_grow_is_refused(second: int) -> None:
    history = (
        Call("a", ACQUIRE, 0, 1, token=5),
        Call("a", RELEASE, 2, 3),
        Call("b", ACQUIRE, 4, 5, token=second),
    )
    assert not accepted(FENCED, *history)
    assert accepted(REENTRANT, *history)


def test_a_token_that_changes_within_a_hold_is_refused() -> None:
    history = Call("a", ACQUIRE, 0, 1, token=5), Call("a", ACQUIRE, 2, 3, token=6)
    assert not accepted(FENCED, *history)
    assert accepted(REENTRANT, *history)


@pytest.mark.parametrize("model", ALL)
def test_what_a_killed_client_had_called_may_have_happened_or_not(model: Model) -> None:
    killed = Call("a", ACQUIRE, 0), Call("a", END, 0)
    assert accepted(model, *killed, Call("b", ACQUIRE, 1, 2, token=5))
    assert accepted(model, Call("b", ACQUIRE, 1, 2, token=5), *killed)


@pytest.mark.parametrize("model", ALL)
def test_a_killed_holder_keeps_the_lock_until_it_is_taken_from_it_once(model: Model) -> None:
    killed = Call("a", ACQUIRE, 0, 1, token=5), Call("a", END, 3)
    assert accepted(model, *killed, Call("b", ACQUIRE, 2, 9, token=6))
    assert not accepted(model, *killed, Call("b", ACQUIRE, 1.5, 2, token=6)), "before it was killed"
    then = Call("b", ACQUIRE, 4, 5, token=6), Call("c", ACQUIRE, 6, 7, token=7)
    assert not accepted(model, *killed, *then), "one death frees one hold"


def test_tokens_grow_across_the_death_of_a_holder() -> None:
    killed = Call("a", ACQUIRE, 0, 1, token=5), Call("a", END, 2)
    assert not accepted(FENCED, *killed, Call("b", ACQUIRE, 3, 4, token=5))


@pytest.mark.parametrize("model", ALL)
def test_a_loss_is_told_before_the_next_one_enters_or_was_under_way(model: Model) -> None:
    """The hold was valid at 5 and known to be lost at 9: no other entered before 5."""
    lost = Call("a", ACQUIRE, 0, 1, token=5), Call("a", END, 5, 9)
    assert accepted(model, *lost, Call("b", ACQUIRE, 2, 6, token=6))
    assert not accepted(model, *lost, Call("b", ACQUIRE, 2, 4, token=6))


def test_holds_that_touch_do_not_overlap_and_others_do() -> None:
    assert not overlap([("a", 0, 1), ("b", 1, 2), ("a", 3, 4)])
    assert overlap([("b", 1, 3), ("a", 0, 2)])


class Deaf(Promises):
    """Does not object to two inside, nor to tokens; it only keeps count of them."""

    def check_exclusion(self, node: Node) -> None: ...

    def check_token(self, node: Node, user: User, lock: str) -> None:
        with contextlib.suppress(Breach):
            super().check_token(node, user, lock)


class Recorder(World):
    """The hostile world of the leased lock; its users' histories are judged, not its monitors'."""

    def __init__(self, seed: int, profile: str, kit: Kit | None = None) -> None:
        super().__init__(seed, profile, kit, sharing=0.0)
        self.promises = Deaf(self)
        self.history: dict[str, list[Call]] = {}  # by lock
        self.asked: dict[tuple[int, str], float] = {}
        self.seen_valid: dict[tuple[int, str], float] = {}  # by those who are inside

    def _note(self, who: tuple[int, str], kind: str, called: float, **rest: Any) -> None:
        client = f"{who[0]}.{self.participants[who[0]].incarnation}"
        self.history.setdefault(who[1], []).append(Call(client, kind, called, **rest))

    def run(self) -> World:
        with contextlib.suppress(Breach):  # of progress, if at all
            super().run()
        for who, seen in self.seen_valid.items():
            self._note(who, END, seen)
        return self

    def step(self, node: Node, handler: Any) -> Any:
        self._look()
        return super().step(node, handler)

    def _look(self) -> None:
        for who in self.seen_valid:
            if self.is_valid(self.participants[who[0]], who[1]):
                self.seen_valid[who] = self.now

    def _think(self, who: tuple[int, str]) -> None:
        if self.users[who].phase == "idle":
            self.asked[who] = self.now
        super()._think(who)

    def hear(self, node: Node, event: Any) -> None:
        who = node.me, event.lock
        if type(event).__name__ == "Lost":
            self._end(who)
        else:
            self._note(who, ACQUIRE, self.asked[who], returned=self.now, token=event.token)
            self.seen_valid[who] = self.now
        super().hear(node, event)

    def _end(self, who: tuple[int, str]) -> None:
        if who in self.seen_valid:
            self._note(who, END, self.seen_valid.pop(who), returned=self.now)

    def _leave(self, who: tuple[int, str], life: int) -> None:
        super()._leave(who, life)
        if self.users[who].phase != "inside":
            self._end(who)

    def _pass_on(self, who: tuple[int, str]) -> bool:
        self._look()
        self._end(who)
        self.asked[who] = self.now
        return super()._pass_on(who)

    def crash(self, node: Node) -> None:
        for who, user in self.users.items():
            if who[0] == node.me and node.alive and user.phase != "idle":
                if user.phase == "waiting":
                    self._note(who, ACQUIRE, self.asked[who])
                    self._note(who, END, self.asked[who])
                elif who in self.seen_valid:
                    self._note(who, END, self.seen_valid.pop(who))
        super().crash(node)


def complaints(profile: str, seed: int, kit: Kit | None = None) -> list[str]:
    world = Recorder(seed, profile, kit)
    world.run()
    return [complaint(history, FENCED) for history in world.history.values()]


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["mixed", "crash", "pause", "net"])
def test_what_users_of_the_leased_lock_see_is_a_fenced_mutex(profile: str) -> None:
    for seed in range(20):
        found = complaints(profile, seed)
        assert found == [""] * len(found), f"seed {seed}"


MUTANTS = {
    "holder does not look at leases": (Bid, "{voter: lease(voter) for", "{voter: 1e9 for", "net"),
    "restarted voter votes at once": (
        Voter,
        "if (out.saved or self.cautious) and self.configuration is not None:",
        "if self.cautious:",
        "crash",
    ),
    "release does not raise the floor": (
        Voter,
        "if tenure is not None:\n                    self._take_back(ballot, tenure, used)",
        "if tenure is not None:\n                    self._take_back(ballot, tenure, 0)",
        "calm",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_lock_is_known_by_what_its_users_see(name: str) -> None:
    kind, old, new, profile = MUTANTS[name]
    kit = broken(kind, old, new)
    assert any(any(complaints(profile, seed, kit)) for seed in range(200))
