"""The banker's table: what is safe, and what is not."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coterie.algorithms.deadlock.avoidance import Account, safe_order


def account(job: str, holds: int, claims: int) -> Account[str, str]:
    return Account(job, {"unit": holds}, {"unit": claims})


def test_dijkstras_florins_are_lent_safely() -> None:
    """Of ten florins eight are lent; whoever needs two more can finish, and then the next one."""
    accounts = [account("a", 4, 8), account("b", 2, 4), account("c", 2, 9)]
    assert safe_order({"unit": 2}, accounts) == ["b", "a", "c"]


def test_one_florin_more_to_the_wrong_one_is_not_safe() -> None:
    accounts = [account("a", 4, 8), account("b", 2, 4), account("c", 3, 9)]
    assert safe_order({"unit": 1}, accounts) is None


def test_several_kinds_have_to_suffice_together() -> None:
    accounts = [
        Account("a", {"x": 1}, {"x": 1, "y": 1}),
        Account("b", {"y": 1}, {"x": 1, "y": 1}),
    ]
    assert safe_order({}, accounts) is None
    assert safe_order({"y": 1}, accounts) == ["a", "b"]


def test_nobody_is_left_out_of_the_order() -> None:
    assert safe_order({}, []) == []
    assert safe_order({"unit": 0}, [account("a", 1, 1)]) == ["a"]


AMOUNTS = st.dictionaries(st.sampled_from("xy"), st.integers(0, 2))


@given(
    free=AMOUNTS,
    amounts=st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=4),
)
def test_an_order_is_found_where_one_of_all_orders_works(
    free: dict[str, int], amounts: list[tuple[dict[str, int], dict[str, int]]]
) -> None:
    accounts = [
        Account(job, holds, Counter(holds) + Counter(more))
        for job, (holds, more) in enumerate(amounts)
    ]
    works = [order for order in itertools.permutations(accounts) if all_finish(free, order)]
    found = safe_order(free, accounts)
    assert (found is not None) == bool(works)
    if found is not None:
        assert found in [[each.job for each in order] for order in works]


def all_finish(free: dict[str, int], order: tuple[Account[int, str], ...]) -> bool:
    units = Counter(free)
    for each in order:
        if any(units[kind] < count for kind, count in each.rest().items()):
            return False
        units.update(each.holds)
    return True
