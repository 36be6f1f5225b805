"""Whether the clock of this machine is near that of the servers: one that is far ahead begins periods early.

What is promised does not depend on it. But a clock that is wrong by more than the slack makes a run count for another
period, and no one looks at the clock of a machine whose job has run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from coterie import system
from coterie.errors import CoterieError
from coterie.locks.duration import spelled
from coterie.locks.engine import Clocked
from coterie.locks.url import without_password

if TYPE_CHECKING:
    from coterie.locks.lock import Session
    from coterie.locks.once.period import Schedule

logger = logging.getLogger("coterie.locks")


async def compare_clocks(session: Session, name: str, schedule: Schedule) -> None:
    """Warn if the clock of this machine differs from that of the servers by more than the slack."""
    if not isinstance(session.engine, Clocked):
        return
    asked_at = system.wall()
    try:
        theirs = await session.engine.server_time()
    except CoterieError:  # the run does not depend on it
        return
    if theirs is None:
        return
    # Where the clocks agree the servers have looked between question and answer.
    ahead, behind = asked_at - theirs, theirs - system.wall()
    if max(ahead, behind) <= schedule.slack:
        return
    logger.warning(
        "job %r: the clock of this machine is %s that of %s, which is more than the slack of %s: %s; look which of"
        " them is right",
        name,
        f"{ahead:.0f} s ahead of" if ahead > 0 else f"{behind:.0f} s behind",
        without_password(session.url),
        spelled(schedule.slack),
        "periods begin early here" if ahead > 0 else "this machine comes late for its periods",
        extra={"event": "clocks-differ"},
    )
