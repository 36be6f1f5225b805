"""What the groups, members and leaders of tooz are called here: their ids are bytes, names of locks are text.

An id is written as in a URL, so that letters and digits stay legible in `coterie status` and no two ids share a name.
"""

from __future__ import annotations

from urllib.parse import quote_from_bytes, unquote_to_bytes

GROUPS = "tooz/groups"


def as_text(identity: bytes) -> str:
    """Write an id as text."""
    return quote_from_bytes(identity, safe="")


def as_bytes(text: str) -> bytes:
    """Read an id that was written by `as_text`."""
    return unquote_to_bytes(text)


def group_lock(group: bytes) -> str:
    """Name the lock that the members of a group share."""
    return f"{GROUPS}/{as_text(group)}"


def member_lock(group: bytes, member: bytes) -> str:
    """Name the lock that one member holds alone; its value are the capabilities."""
    return f"tooz/members/{as_text(group)}/{as_text(member)}"


def leader_lock(group: bytes) -> str:
    """Name the lock that the leader of a group holds."""
    return f"tooz/leaders/{as_text(group)}"
