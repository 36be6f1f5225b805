"""A voting node: it listens, votes, and shows its metrics."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from coterie import system
from coterie.cluster.change.formation import form
from coterie.cluster.membership.proof import Prover
from coterie.cluster.runtime import clock
from coterie.cluster.voter.copies import may_be_elsewhere
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.metrics import node_metrics, serve_text
from coterie.cluster.voter.recovery import catch_up, find_rivals, others, recover
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.address import parse_address
from coterie.cluster.wire.listener import Listener, stop_serving
from coterie.cluster.wire.query import ask_condition, ask_deaths, consult
from coterie.cluster.wire.trouble import explain
from coterie.cluster.wire.voter_frames import Reached
from coterie.errors import ConfigError, CoterieError, Unavailable
from coterie.system.aio import Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from coterie.cluster.membership.config import Config
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.wire.handshake import Credentials
    from coterie.telemetry.text import Metric

logger = logging.getLogger("coterie.cluster")


def _log_suffices(_: CoterieError) -> None:
    """Take the end of a node that is part of a program: the log has it."""


class Node:
    """One voter on one address. After an end, another start is another node."""

    def __init__(
        self,
        config: Config,
        name: str,
        *,
        new_cluster: bool = False,
        program: Callable[[], Iterable[Metric]] = tuple,
        on_failure: Callable[[CoterieError], None] = _log_suffices,
    ) -> None:
        """Prepare; `new_cluster` vouches that no program holds a lock of an earlier start.

        `program` collects the figures of the program that the node is part of; `on_failure` is
        called when the disk has failed, or is that of another installation.
        """
        config.security.operator_bytes()  # now, and not when the first operator calls
        self.name = name
        self.config = config
        self._options = config.options(name)
        self._program = program
        self._on_failure = on_failure
        self._storage = Storage(self._options.data) if self._options.data else None
        self.voting = VoterHost(
            config.membership,
            name,
            self._storage,
            self._fail,
            reach=self._reach,
            prover=Prover(config.membership.cluster, config.security),
            new_cluster=new_cluster,
            ask_nodes=self._ask_nodes if config.witness else None,
            trusts_programs=not config.security.operator_secret,
            adopted=self._look_where_it_is_due,
        )
        self._is_looking = False  # for rivals
        self._start = system.secret(16).hex()
        self._listener = Listener(
            config.local_node(name),
            self._start,
            self.voting.clock,
            self.voting.admit,
            credentials=self._credentials,
            disk=lambda: self.voting.voter.identity,
        )
        self._metrics: asyncio.Server | None = None
        self._tasks = Tasks()

    async def start(self) -> None:
        """Vote, listen, and show the metrics where this is asked for."""
        if self._storage is not None:
            self._storage.open()
        try:
            self.voting.start()
            await self._listener.open()
            await self._show_metrics()
        except BaseException:
            await self.stop()
            raise
        self._begin()
        if self._storage is None:
            error = clock.error_borne(self.config.membership.settings.lease)
            logger.warning(
                "node %(node)s has no data directory: after a restart tokens grow only if the time of"
                " day is right to %(seconds)g s",
                {"node": self.name, "seconds": error},
                extra={"event": "node-without-disk"},
            )

    def _begin(self) -> None:
        """Recover, or form the cluster, beside the votes; say where the file and the disk differ."""
        if self.voting.recovers:
            self._tasks.run(recover(self.config, self.voting))
        if self._storage is not None and not self._storage.is_old and self._is_first:
            self._tasks.run(form(self.config, self.voting))
        if self._storage is not None and self.voting.voter.number >= 0:
            self._tasks.run(self._end_if(partial(catch_up, self.config, self.voting)))
            self._look_for_rivals()
        decided = self.voting.membership
        if not self._has_disk_of_another(decided):
            if not self.voting.votes:
                self._introduce_spare(decided)
            self._compare_address(decided)
        written = {member.name for member in self.config.membership.members}
        names = {member.name for member in decided.members}
        if self.config.membership.decided is None and written != names:
            logger.warning(
                "node %(node)s goes by configuration %(number)d, with the voters %(voters)s, and not by"
                " its file, which names %(written)s: write the voters there, or change them with coterie cluster",
                {
                    "node": self.name,
                    "number": decided.configuration.number,
                    "voters": ", ".join(sorted(names)),
                    "written": ", ".join(sorted(written)),
                },
                extra={"event": "file-differs"},
            )

    def _look_for_rivals(self) -> None:
        """Look for nodes that contradict this one, as long as it runs."""
        if not self._is_looking:
            self._is_looking = True
            look = partial(find_rivals, self.config, self.voting, self._start)
            self._tasks.run(self._end_if(look))

    def _look_where_it_is_due(self) -> None:
        """Begin as soon as it may be contradicted, for one that was a spare when it began."""
        if self.voting.is_forced or may_be_elsewhere(self.config, self.voting):
            self._look_for_rivals()

    def _has_disk_of_another(self, decided: Membership) -> bool:
        """Say whose data directory it is, if volumes were swapped or one was copied."""
        owner = self.voting.disk_owner
        if owner is None:
            return False
        logger.error(
            "node %(node)s has the data directory of voter %(owner)s of configuration %(number)d, or a copy of it:"
            " start it with its own",
            {"node": self.name, "owner": owner, "number": decided.configuration.number},
            extra={"event": "disk-of-another"},
        )
        return True

    def _compare_address(self, decided: Membership) -> None:
        """Say where programs look for this voter, if they would not find it there."""
        seats = [seat for seat in decided.seats if decided.disk(seat) == self.voting.voter.identity]
        if not decided.decided or not seats:
            return
        recorded, ours = decided.at(seats[-1]).address, self._options.listen
        is_elsewhere = ours.leads_elsewhere_than(recorded)
        if (
            self.config.membership.decided is None
        ):  # it has a file, which says where others reach it
            ours = self.config.membership.at(self.config.membership.voter(self.name)).address
            is_elsewhere = ours != recorded
        if is_elsewhere:
            logger.warning(
                "node %(node)s is at %(address)s, and configuration %(number)d says %(recorded)s, where programs look"
                " for it: coterie cluster set address.%(node)s=%(address)s, if it was renumbered for good",
                {
                    "node": self.name,
                    "address": ours,
                    "number": decided.configuration.number,
                    "recorded": recorded,
                },
                extra={"event": "address-differs"},
            )

    async def _end_if(self, look: Callable[[], Awaitable[None]]) -> None:
        """End the node if it is found that its data directory is not to be used here."""
        try:
            await look()
        except ConfigError as error:
            logger.critical(
                "node %(node)s votes no more: %(reason)s",
                {"node": self.name, "reason": error},
                extra={"event": "node-failed"},
            )
            self._on_failure(error)

    def _introduce_spare(self, decided: Membership) -> None:
        number = decided.configuration.number
        if self.name in [member.name for member in decided.members]:
            logger.warning(
                "node %(node)s is a spare: the voter %(node)s of configuration %(number)d has another disk; if that was"
                " lost, coterie cluster replace %(node)s puts this one in its place",
                {"node": self.name, "number": number},
                extra={"event": "spare-of-voter"},
            )
        else:
            logger.info(
                "node %(node)s is a spare of configuration %(number)d: coterie cluster add, or replace, makes it"
                " a voter",
                {"node": self.name, "number": number},
                extra={"event": "node-is-spare"},
            )

    @property
    def _is_first(self) -> bool:
        """Whether this is the node that forms the cluster: one suffices."""
        return self.config.membership.members[0].name == self.name

    def _credentials(self) -> Credentials:
        security = self.config.security
        return self.voting.membership.credentials(
            security.secret_bytes(), security.operator_bytes()
        )

    def _reach(self, name: str, address: str, done: Callable[[Reached], None]) -> None:
        self._tasks.run(self._reach_node(name, address, done))

    async def _reach_node(self, name: str, address: str, done: Callable[[Reached], None]) -> None:
        """Call a node that is to become a voter, and tell what came of it."""
        security = self.config.security
        credentials = self.voting.membership.stranger(security.secret_bytes())
        try:
            place = parse_address(address)
            condition = await ask_condition(name, place, credentials, security.client_context())
        except (OSError, CoterieError, msgspec.MsgspecError) as error:
            done(Reached("", explain(error)))
        else:
            done(Reached(condition.identity, ""))

    async def _ask_nodes(self, lives: Sequence[str], tell: Callable[[str, str], None]) -> None:
        """Ask all other nodes which of these programs have ended: one may be on their machine."""
        security, membership = self.config.security, self.voting.membership
        # Where programs are not trusted to end holds of others, neither is what answers at the address
        # of a node: it has to know the operator secret.
        credentials = membership.stranger(operator=security.operator_bytes())
        tls = security.client_context()
        # Wherever they may be: after all were renumbered none is where it is on record.
        calls = [
            consult(address, credentials, tls, role="operator")
            for _, address in others(self.config, self.voting)
        ]
        await asyncio.gather(*(ask_deaths(call, lives, tell) for call in calls))

    async def _show_metrics(self) -> None:
        address = self._options.metrics
        if address is None:
            return
        try:
            self._metrics = await serve_text(
                address, lambda: node_metrics(self.voting, self._program())
            )
        except OSError as error:
            raise Unavailable(f"metrics of node {self.name!r} on {address}: {error}") from None

    def _fail(self, error: OSError) -> None:
        logger.critical(
            "node %(node)s votes no more: it cannot save its bound: %(reason)s",
            {"node": self.name, "reason": error},
            extra={"event": "node-failed"},
        )
        self._on_failure(Unavailable(f"node {self.name!r}: {error}"))

    async def stop(self) -> None:
        """End in good order: with a data directory the next start goes on where this one ended."""
        if self._metrics is not None:
            await stop_serving(self._metrics)
        await self._tasks.end()
        self.voting.stop()
        await self._listener.close()
        if self._storage is not None:
            self._storage.close()
