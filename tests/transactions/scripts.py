"""Small transactions that meet: what every scheme has to bring into an order."""

from __future__ import annotations

LOST_UPDATE = ("u(x) w(x)", "r(x) w(x)")
WRITE_SKEW = ("r(x) w(y)", "r(y) w(x)")
READ_SKEW = ("r(x) r(y)", "w(x) w(y)")
OPPOSITE_WRITES = ("w(x) w(y)", "w(y) w(x)")
INSERTS = ("s(a,c) w(a)", "s(a,c) w(b)")
INSTALLS = ("w(x)", "w(x) w(y)", "r(x) r(y)")
READERS = ("r(a) w(x)", "w(a)", "r(a) r(x)")
THREE_SKEWED = ("r(x) w(y)", "r(y) w(z)", "r(z) w(x)")
GIVEN_UP = ("w(x) a", "r(x) w(y)", "r(y)")
KEYS = tuple("abcdxyz")  # all that they touch
