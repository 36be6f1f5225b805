"""A copy of a data directory that runs beside the original: two nodes that give one voter's votes twice.

A machine was cloned, or a backup started while the machine that it was made of is still there. Programs
find a voter by its disk, so those that know the address of the copy may get a lock beside others. Only the
operator can tell which of the two is meant, and has recorded an address: so the node that is not there ends,
as soon as another one with its disk answers at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.cluster.wire.connection import FAULTS
from coterie.cluster.wire.query import consult
from coterie.errors import ConfigError, CoterieError

if TYPE_CHECKING:
    from coterie.cluster.membership.config import Config
    from coterie.cluster.voter.host import VoterHost
    from coterie.cluster.wire.address import Address


async def check_record(config: Config, voting: VoterHost, start: str) -> None:
    """Raise `ConfigError` if another node than this `start` answers where our voter is on record."""
    recorded = _recorded(voting)
    if recorded is None or not may_be_elsewhere(config, voting):
        return
    if await _is_another(recorded, config, voting, start):
        raise ConfigError(
            f"another node runs at {recorded} with the data directory of node {voting.node!r}, or a copy"
            " of it, and the configuration has that address: stop one of the two for good and empty its"
            f" directory; if this one is to stay, coterie cluster set address.{voting.node}= records"
            " where it is"
        )


def may_be_elsewhere(config: Config, voting: VoterHost) -> bool:
    """Return whether our voter is on record at another address than this node listens at.

    A name or a wildcard may lead here or elsewhere: the answer of who is there says.
    """
    return _recorded(voting) not in (None, config.options(voting.node).listen)


def _recorded(voting: VoterHost) -> Address | None:
    """Return where this voter is on record; None if it does not vote, or not by a number."""
    membership = voting.membership
    if membership.decided is None or not voting.votes:
        return None
    return membership.at(membership.voter(voting.node)).address


async def _is_another(address: Address, config: Config, voting: VoterHost, start: str) -> bool:
    security = config.security
    credentials = voting.membership.stranger(security.secret_bytes())
    try:
        async with consult(address, credentials, security.client_context(), voting.node) as talk:
            return talk.disk == voting.voter.identity and talk.start != start
    except (OSError, CoterieError, *FAULTS):  # no node answers, or another one
        return False
