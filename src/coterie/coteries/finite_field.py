"""Arithmetic in the finite fields GF(p^k), by tables.

An element is a number from 0 to q - 1; its digits in base p are the coefficients of a polynomial,
lowest first. For k = 1 this is arithmetic modulo p; GF(4), GF(8), GF(9) are *not* that.
"""

from __future__ import annotations

import functools
import math

from coterie.errors import UsageError


def prime_power(number: int) -> tuple[int, int] | None:
    """Write `number` as (p, k) with p prime and p^k = number, or give None."""
    if number < 2:
        return None
    prime = next(
        (divisor for divisor in range(2, math.isqrt(number) + 1) if number % divisor == 0), number
    )
    exponent = 0
    rest = number
    while rest % prime == 0:
        rest //= prime
        exponent += 1
    return (prime, exponent) if rest == 1 else None


class FiniteField:
    """The field with `order` elements: differences and products, as tables.

    Order 1 is accepted as arithmetic modulo 1, which makes the triangle a plane of order 1.
    """

    def __init__(self, order: int) -> None:
        """Compute the tables."""
        power = (1, 1) if order == 1 else prime_power(order)
        if power is None:
            raise UsageError(f"there is no field with {order} elements: not a prime power")
        self.order = order
        self._prime, self._degree = power
        self.differences = tuple(
            tuple(self._difference(one, other) for other in range(order)) for one in range(order)
        )
        self.products = self._products_modulo() if self._degree == 1 else self._products_by_powers()

    def inverse(self, element: int) -> int:
        """Return the element whose product with `element` is one."""
        return self.products[element].index(1)

    def _difference(self, one: int, other: int) -> int:
        if self._degree == 1:
            return (one - other) % self.order
        difference, place = 0, 1
        while one or other:
            difference += (one - other) % self._prime * place
            one, other, place = one // self._prime, other // self._prime, place * self._prime
        return difference

    def _products_modulo(self) -> tuple[tuple[int, ...], ...]:
        numbers = range(self.order)
        return tuple(tuple(one * other % self.order for other in numbers) for one in numbers)

    def _products_by_powers(self) -> tuple[tuple[int, ...], ...]:
        """Multiply by adding exponents of a generator."""
        powers = self._powers_of_generator()
        exponents = {element: exponent for exponent, element in enumerate(powers)}

        def product(one: int, other: int) -> int:
            if not one or not other:
                return 0
            return powers[(exponents[one] + exponents[other]) % (self.order - 1)]

        elements = range(self.order)
        return tuple(tuple(product(one, other) for other in elements) for one in elements)

    def _powers_of_generator(self) -> list[int]:
        """Find a modulus x^k = `tail` under which the powers of x are all elements but zero."""
        for tail in range(1, self.order):
            powers = [1]
            while (following := self._times_x(powers[-1], tail)) != 1 and following:
                powers.append(following)
                if len(powers) == self.order:  # a circle that does not lead back to one
                    break
            if len(powers) == self.order - 1 and following == 1:
                return powers
        raise AssertionError(f"no primitive polynomial for {self.order}")

    def _times_x(self, element: int, tail: int) -> int:
        """Shift the coefficients up, and replace x^k by `tail`."""
        leading, rest = divmod(element, self.order // self._prime)
        shifted = rest * self._prime
        for _ in range(leading):
            shifted = self.differences[shifted][self.differences[0][tail]]
        return shifted


@functools.cache
def finite_field(order: int) -> FiniteField:
    """Return the field with `order` elements, computing its tables once."""
    return FiniteField(order)
