"""Replacing a failed member in the quorums: the update C' = Q(T_xy(C)) of 1996.

T_xy puts y in the place of x. Afterwards one image may contain another, and Q keeps one of the two.
Images are a set: two quorums with the same image must not delete each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Keep: TypeAlias = Literal["larger", "smaller"]


def replace_member(
    quorums: Iterable[frozenset[int]], failed: int, by: int, keep: Keep
) -> set[frozenset[int]]:
    """Put `by` in the place of `failed`, and keep the larger or the smaller of nested images."""
    images = {_image(quorum, failed, by) for quorum in quorums}
    if keep == "larger":
        return {one for one in images if not any(one < other for other in images)}
    return {one for one in images if not any(other < one for other in images)}


def _image(quorum: frozenset[int], failed: int, by: int) -> frozenset[int]:
    """Apply CT_xy: x leaves the quorum and y is in it, if x was."""
    return (quorum - {failed}) | {by} if failed in quorum else quorum
