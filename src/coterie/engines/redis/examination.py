"""What the sentinels of a primary know, judged for an operator: who could take over, and what that costs. A value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coterie.locks.status import ServiceFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.engines.redis.sentinel import PrimaryAddress, SentinelView

SENTINELS_FEW = 3
OVERLAP = ServiceFinding(
    "failover",
    "warning",
    "the server has replicas: if one of them is promoted, two programs may hold a lock at the same time",
    "name the sentinels in the URL, or use etcd:// or coterie:// where that must not be",
)


def examine_views(views: Sequence[SentinelView]) -> list[ServiceFinding]:
    """Judge what the sentinels of a URL have said."""
    named = Counter(view.primary for view in views if view.primary is not None)
    primary, votes = max(named.items(), key=lambda each: each[1], default=(None, 0))
    if 2 * votes <= len(views):
        primary = None
    return [*(_of_one(view, primary) for view in views), *_of_all(views, primary, votes)]


def _of_one(view: SentinelView, primary: PrimaryAddress | None) -> ServiceFinding:
    what = f"sentinel at {view.address}"
    if view.primary is None:
        return ServiceFinding(
            what, "bad", view.trouble, "start it, or look at its log and its password"
        )
    found = f"names {view.primary}, with {_number(view.replicas, 'replica')}, one of {view.sentinels}, quorum {view.quorum}"
    if view.trouble:
        return ServiceFinding(what, "warning", f"{found}; {view.trouble}", "look at the primary")
    if primary is not None and view.primary != primary:
        return ServiceFinding(what, "warning", found, f"most sentinels name {primary}")
    return ServiceFinding(what, "good", found)


def _of_all(
    views: Sequence[SentinelView], primary: PrimaryAddress | None, votes: int
) -> Iterator[ServiceFinding]:
    answers = [view for view in views if view.primary is not None]
    if primary is None:
        found = f"{votes} of {len(views)} sentinels name the same one; a majority is needed"
        yield ServiceFinding("primary", "bad", found, "locks wait, and holds end")
        return
    yield ServiceFinding("primary", "good", f"{primary}, by {votes} of {len(views)} sentinels")
    watching = max(view.sentinels for view in answers)
    if watching != len(views):
        found = f"{watching} watch the primary, and the URL names {len(views)}"
        yield ServiceFinding("sentinels", "warning", found, "name all of them, in all programs")
    elif watching < SENTINELS_FEW:
        found = f"{_number(watching, 'sentinel')}: none may be away"
        yield ServiceFinding("sentinels", "warning", found, "run three")
    if not any(view.replicas for view in answers):
        found = "no replica: no server can take over"
        yield ServiceFinding("failover", "warning", found, "locks wait while the primary is away")
        return
    found = "each one ends all holds, and may lose values that were written just before"
    advice = "use etcd:// or coterie:// where a lock has to outlast the loss of a server"
    yield ServiceFinding("failover", "warning", found, advice)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
