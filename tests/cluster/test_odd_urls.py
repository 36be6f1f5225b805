"""Whatever stands in a URL, what is wrong with it is said in one line."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

import coterie

WHOLE = (
    "coterie://a:7420,b:7420",
    "coterie://[::1]:7420/orders",
    "coterie://a?secret-file=/s&ca=/c",
    "coterie:coterie.toml",
    "file:/tmp/locks",
    "file://host/locks",
)
ODD = ":/,@?#%[]a1.-_ \nü&="


def mangled(dice: Random) -> str:
    characters = list(dice.choice(WHOLE))
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(characters))
        characters[place : place + dice.randint(0, 1)] = dice.choice(["", *ODD])
    return "".join(characters)


def test_a_bracket_that_is_not_closed_is_refused() -> None:
    with pytest.raises(coterie.UsageError, match="coterie://"):
        coterie.connect("coterie://a,[::1")


def test_a_mangled_url_is_read_or_refused() -> None:
    dice = Random(1)  # any other would do
    for _ in range(3000):
        with contextlib.suppress(coterie.CoterieError):
            coterie.connect(mangled(dice))
