"""The axioms of a field, by exhaustion."""

from __future__ import annotations

import itertools

import pytest

from coterie.coteries.finite_field import FiniteField, prime_power
from coterie.errors import UsageError


@pytest.mark.parametrize("order", [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 25, 27])
def test_the_tables_are_those_of_a_field(order: int) -> None:
    field = FiniteField(order)
    elements = range(order)

    def plus(one: int, other: int) -> int:
        return field.differences[one][field.differences[0][other]]

    def times(one: int, other: int) -> int:
        return field.products[one][other]

    for a, b in itertools.product(elements, repeat=2):
        assert plus(a, b) == plus(b, a)
        assert times(a, b) == times(b, a)
        assert plus(field.differences[a][b], b) == a
    for a in elements:
        assert plus(a, 0) == a
        assert times(a, 1) == a
        assert a == 0 or times(a, field.inverse(a)) == 1
    for a, b, c in itertools.product(elements, repeat=3):
        assert times(a, times(b, c)) == times(times(a, b), c)
        assert times(a, plus(b, c)) == plus(times(a, b), times(a, c))


def test_gf_4_is_not_arithmetic_modulo_4() -> None:
    assert FiniteField(4).products[2][2] != 0


def test_prime_powers_are_told_from_other_numbers() -> None:
    found = [number for number in range(-1, 33) if prime_power(number)]
    assert found == [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32]
    assert prime_power(343) == (7, 3)


def test_there_is_no_field_with_six_elements() -> None:
    with pytest.raises(UsageError, match="no field with 6 elements"):
        FiniteField(6)
