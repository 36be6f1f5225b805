"""The driver: what tooz calls, by the locks, values and holders of a coordinator."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import tooz
from tooz import coordination

from coterie.contrib.tooz.groups import Groups
from coterie.contrib.tooz.lock import CoterieLock
from coterie.contrib.tooz.names import as_text, leader_lock
from coterie.contrib.tooz.open_coordinator import OpenCoordinator, translated
from coterie.errors import CoterieError
from coterie.locks.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.contrib.tooz.thread_hold import ThreadHold

Result = TypeVar("Result")

PREFIX = "coterie+"  # of the scheme: coterie+etcd://host:2379 is etcd://host:2379 here


class CoterieDriver(coordination.CoordinationDriverCachedRunWatchers):
    """Locks, groups and leaders of tooz on every engine of coterie.

    There is no heartbeat: what is held is renewed by a thread of its own while the process lives. Calls about groups
    run in another thread, in their order, so that they can be waited for.
    """

    CHARACTERISTICS: tuple[coordination.Characteristics, ...] = (
        # As tooz's driver for ZooKeeper says it: no call has to come in time.
        coordination.Characteristics.NON_TIMEOUT_BASED,
        coordination.Characteristics.DISTRIBUTED_ACROSS_THREADS,
        coordination.Characteristics.DISTRIBUTED_ACROSS_PROCESSES,
    )

    def __init__(self, member_id: bytes | str, parsed_url: Any, options: dict[str, Any]) -> None:
        """Prepare; `start` connects."""
        self._me = as_id(member_id)
        super().__init__(self._me, parsed_url, options)
        self._url = url_of(parsed_url, options)
        if not self._url.startswith("file:"):
            across_hosts = coordination.Characteristics.DISTRIBUTED_ACROSS_HOSTS
            self.CHARACTERISTICS = (*self.CHARACTERISTICS, across_hosts)
        self._open: OpenCoordinator | None = None
        self._groups: Groups | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._thread: threading.Thread | None = None  # of the executor
        self._terms: dict[bytes, ThreadHold] = {}  # in which this driver leads, by the group

    def _start(self) -> None:
        try:
            self._open = OpenCoordinator(self._url)
        except CoterieError as error:
            raise coordination.ToozConnectionError(str(error)) from error
        self._groups = Groups(self._open, self._me)
        self._executor = ThreadPoolExecutor(1, "coterie-tooz-groups")
        self._thread = self._executor.submit(threading.current_thread).result()

    def _stop(self) -> None:
        opened, executor = self._open, self._executor
        assert opened is not None, "started"
        assert executor is not None, "started"
        self._open = self._groups = self._executor = self._thread = None
        self._terms.clear()
        executor.shutdown()
        with translated():
            opened.close()

    def get_lock(self, name: bytes | str) -> CoterieLock:
        """Return a lock that is called the same in coterie."""
        try:
            text = check_name(as_id(name).decode())
        except (UnicodeDecodeError, CoterieError) as error:
            raise ValueError(f"a lock cannot be called {name!r}: {error}") from error
        return CoterieLock(name, text, self._running)

    def create_group(self, group_id: bytes) -> coordination.CoordAsyncResult[None]:
        """Create a group."""
        group = as_id(group_id)
        return self._later(lambda groups: groups.create(group))

    def delete_group(self, group_id: bytes) -> coordination.CoordAsyncResult[None]:
        """Delete a group without members."""
        group = as_id(group_id)
        return self._later(lambda groups: groups.delete(group))

    def get_groups(self) -> coordination.CoordAsyncResult[list[bytes]]:
        """List all groups."""
        return self._later(lambda groups: groups.all())

    def join_group(
        self, group_id: bytes, capabilities: Any = None
    ) -> coordination.CoordAsyncResult[None]:
        """Join a group."""

        def join(groups: Groups) -> None:
            groups.join(as_id(group_id), capabilities)
            self._joined_groups.add(group_id)

        return self._later(join)

    def leave_group(self, group_id: bytes) -> coordination.CoordAsyncResult[None]:
        """Leave a group that this driver has joined."""

        def leave(groups: Groups) -> None:
            groups.leave(as_id(group_id))
            self._joined_groups.discard(group_id)

        return self._later(leave)

    def get_members(self, group_id: bytes) -> coordination.CoordAsyncResult[set[bytes]]:
        """Return the ids of all members."""
        group = as_id(group_id)
        return self._later(lambda groups: groups.members(group))

    def get_member_capabilities(
        self, group_id: bytes, member_id: bytes
    ) -> coordination.CoordAsyncResult[Any]:
        """Return the capabilities of a member."""
        group, member = as_id(group_id), as_id(member_id)
        return self._later(lambda groups: groups.capabilities(group, member))

    def get_members_with_capabilities(
        self, group_id: bytes
    ) -> coordination.CoordAsyncResult[dict[bytes, Any]]:
        """Return all members with their capabilities."""
        group = as_id(group_id)
        return self._later(lambda groups: groups.all_capabilities(group))

    def get_member_info(
        self, group_id: bytes, member_id: bytes
    ) -> coordination.CoordAsyncResult[dict[str, Any]]:
        """Return the capabilities of a member; there are no statistics."""
        group, member = as_id(group_id), as_id(member_id)
        return self._later(lambda groups: {"capabilities": groups.capabilities(group, member)})

    def update_capabilities(
        self, group_id: bytes, capabilities: Any
    ) -> coordination.CoordAsyncResult[None]:
        """Replace the capabilities of this member."""
        group = as_id(group_id)
        return self._later(lambda groups: groups.update(group, capabilities))

    def get_leader(self, group_id: bytes) -> coordination.CoordAsyncResult[bytes | None]:
        """Return the id of the leader, or None."""
        group = as_id(group_id)
        return self._later(lambda groups: groups.leader(group))

    def run_elect_coordinator(self) -> None:
        """Lead each group that is watched for that and has no leader, and call the hooks."""
        for group_id, hooks in list(self._hooks_elected_leader.items()):
            if hooks and self._begins_to_lead(as_id(group_id)):
                hooks.run(coordination.LeaderElected(group_id, self._me))

    def run_watchers(self, timeout: float | None = None) -> list[Any]:
        """Call the hooks of what has changed since the last call."""
        found: list[Any] = super().run_watchers(timeout)
        self.run_elect_coordinator()
        return found

    def stand_down_group_leader(self, group_id: bytes) -> bool:
        """Lead no longer; return False if this driver did not lead."""
        term = self._terms.pop(as_id(group_id), None)
        if term is None:
            return False
        with translated():
            return self._running().give_back(term)

    def _begins_to_lead(self, group: bytes) -> bool:
        """Return whether a term of this driver begins now."""
        term = self._terms.get(group)
        if term is not None and term.valid:
            return False
        with translated():
            if term is not None:
                del self._terms[group]
                self._running().give_back(term)
            taken = self._running().take(leader_lock(group), timeout=0, note=as_text(self._me))
        if taken is None:
            return False
        self._terms[group] = taken
        return True

    def _running(self) -> OpenCoordinator:
        if self._open is None:
            raise tooz.ToozError("the driver has not been started")
        return self._open

    def _later(self, call: Callable[[Groups], Result]) -> coordination.CoordAsyncResult[Result]:
        """Call in the thread of groups, one call after the other."""
        groups, executor, thread = self._groups, self._executor, self._thread
        if groups is None or executor is None or thread is None:
            raise tooz.ToozError("the driver has not been started")
        if not thread.is_alive():  # it is left behind in the parent of a fork
            raise tooz.ToozError(
                "the driver was started in another process: start one after a fork"
            )
        return coordination.CoordinatorResult(executor.submit(call, groups), translated)


def as_id(identity: bytes | str) -> bytes:
    """Return an id as bytes; tooz lets programs write text."""
    return identity if isinstance(identity, bytes) else identity.encode()


def url_of(parsed_url: Any, options: dict[str, Any]) -> str:
    """Return our URL for what tooz has made of its own."""
    scheme = parsed_url.scheme.removeprefix(PREFIX)
    host = f"//{parsed_url.netloc}" if parsed_url.netloc else ""
    query = f"?{urlencode(options, doseq=True, quote_via=quote)}" if options else ""
    return f"{scheme}:{host}{parsed_url.path}{query}"
