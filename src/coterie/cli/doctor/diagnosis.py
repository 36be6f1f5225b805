"""What was looked at, and how it is."""

from __future__ import annotations

from typing import Literal

import msgspec


class Diagnosis(msgspec.Struct, frozen=True):
    """One thing that locks rest on."""

    what: str
    state: Literal["good", "look", "bad"]  # look: it works, and may not for long or under load
    found: str
    advice: str = ""
