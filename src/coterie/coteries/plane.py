"""Quorums as the lines of a projective plane (Maekawa, 1985): about √N members each.

Any two lines of a plane of order q meet in one point; q² + q + 1 points lie on as many lines, q + 1
on each. The points are numbered as in the literature: 1 is the direction of the vertical lines,
2 + m the direction of slope m, and then come the q² points (x, y), column by column. There are three
kinds of lines: the one at infinity {1, ..., q + 1}; the vertical ones; and y + mx = b for all m, b.

For other sizes the points above N are dropped, and each is stood in for by a point that stays. Two
lines then still meet: where their common point was, its stand-in is.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from coterie.coteries.coterie import Coterie, Quorum, in_order, refuse_long_list
from coterie.coteries.finite_field import finite_field, prime_power
from coterie.coteries.votes import majority
from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def projective_plane(order: int) -> Plane:
    """Return the plane of `order`: quorums of order + 1 members, and as many quorums around each."""
    if prime_power(order) is None:
        orders = [str(order) for order in range(2, 17) if prime_power(order)]
        raise UsageError(
            f"no projective plane of order {order} is known;"
            f" choose a prime power: {', '.join(orders)}, ..."
        )
    return Plane(points_of(order), order)


def relaxed_plane(size: int) -> Coterie:
    """Return a coterie of members 1 to `size` with quorums near √size, each member in its own.

    It is the plane itself where there is one (3, 7, 13, 21, 31, ... members), else the next larger
    one with stand-ins: then no quorum has more than order + 1 members, and some members are in
    more quorums than others.
    """
    if size < 1:
        raise UsageError(f"a coterie needs at least one member, got {size}")
    if size == 2:
        return majority([1, 2])  # a point of the triangle cannot be stood in for
    order = 1
    while points_of(order) < size or not (order == 1 or prime_power(order)):
        order += 1
    return Plane(size, order)


def points_of(order: int) -> int:
    """Count the points of a plane, which are as many as its lines."""
    return order * order + order + 1


class Plane(Coterie):
    """The lines of the plane of `order`, cut down to the points 1 to `size`.

    A quorum is computed when it is asked for, so that a hundred thousand members are no trouble.
    No quorum contains another: lines share one point only, and the stand-ins on one of them cannot
    make up for the rest of the other while less than a third of the points is dropped. That is so
    from order 17 on, as there is a prime between n and 6n/5; the tests try all smaller sizes.
    """

    def __init__(self, size: int, order: int) -> None:
        """Choose the stand-ins of the points above `size` among the points (x, y), in turn."""
        self._members = tuple(range(1, size + 1))
        self._order = order
        self._field = finite_field(order)
        stayed = self._members[order + 1 :] or self._members
        dropped = points_of(order) - size
        # The position is the point; the ids are shared by all quorums, which saves memory.
        self._stand_ins = (
            0,
            *self._members,
            *(stayed[turn % len(stayed)] for turn in range(dropped)),
        )

    @property
    def order(self) -> int:
        """The order of the plane that the quorums are lines of."""
        return self._order

    @functools.cached_property
    def quorums(self) -> tuple[Quorum, ...]:
        """The lines, with stand-ins for the dropped points."""
        refuse_long_list("this plane", points_of(self._order), self._order + 1)
        return in_order(map(self._quorum, self._lines()))

    def quorum_for(self, member: int) -> Quorum:
        """Return the line of `member`, which passes through it; no two points have the same line."""
        self._know(member)
        return self._quorum(self._line_of(member))

    def _quorum(self, line: Iterable[int]) -> Quorum:
        return frozenset([self._stand_ins[point] for point in line])

    def _line_of(self, point: int) -> list[int]:
        """Match points with lines through them.

        Point 1 takes the line at infinity, the direction m the line y + mx = 0, and (x, 0) the
        vertical line at x. There remain (x, y) with y ≠ 0 and the lines with b ≠ 0. Let r = x - d,
        with d such that rx ≠ 1 whatever x: the line through (x, y) with m/b = r has
        b = y / (1 - rx). Since r runs through the whole field when x does, each line is taken once.
        """
        order, field = self._order, self._field
        if point == 1:
            return self._infinity()
        if point <= order + 1:
            return self._sloped(point - 2, 0)
        x, y = divmod(point - order - 2, order)
        if y == 0:
            return self._vertical(x)
        ratio = field.differences[x][self._shift]
        intercept = field.products[y][field.inverse(field.differences[1][field.products[ratio][x]])]
        return self._sloped(field.products[ratio][intercept], intercept)

    @functools.cached_property
    def _shift(self) -> int:
        """The d for which x(x - d) = 1 has no solution."""
        field = self._field
        elements = range(self._order)
        return next(
            d
            for d in elements
            if all(field.products[x][field.differences[x][d]] != 1 for x in elements)
        )

    def _lines(self) -> Iterator[list[int]]:
        yield self._infinity()
        for x in range(self._order):
            yield self._vertical(x)
        for slope in range(self._order):
            for intercept in range(self._order):
                yield self._sloped(slope, intercept)

    def _infinity(self) -> list[int]:
        return list(range(1, self._order + 2))

    def _vertical(self, x: int) -> list[int]:
        first = self._order + 2 + x * self._order
        return [1, *range(first, first + self._order)]

    def _sloped(self, slope: int, intercept: int) -> list[int]:
        """List the direction and the points (x, y) with y + slope x = intercept."""
        column = range(self._order + 2, points_of(self._order) + 1, self._order)
        below = self._field.differences[intercept]
        products = self._field.products[slope]
        points = [first + below[product] for first, product in zip(column, products, strict=True)]
        return [2 + slope, *points]
