"""A Redis or Valkey of a test's own with a replica and three sentinels, with passwords and TLS if they are asked for."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import redis

from coterie.cluster.membership.ports import free_ports
from coterie.lab.servers.child import ServerProcess, SystemServerMissing, wait_for
from coterie.lab.servers.supplier import FAILS_OVER, LEASED, VALUES
from coterie.lab.servers.valkey import valkey_program

if TYPE_CHECKING:
    from collections.abc import Iterator

SENTINELS = 3
QUORUM = 2
# A former primary that is back is made a replica after four announcements and a look; and a sentinel that was
# stopped promotes nothing for half a minute.
PERIODS = {"info-period": 500, "publish-period": 400, "tilt-period": 1000}
LINK_USER = "link"  # by which a replica calls its primary
# Of redis-tools: the program that is the server, too, if it is called by the server's name; this package starts none.
DEBIAN_REDIS = Path("/usr/bin/redis-check-rdb")


class RedisGuard(NamedTuple):
    """What the servers want of those who call them."""

    password: str = ""
    sentinel_password: str = ""
    certificates: Path | None = None  # folder of those for TLS

    def tls_lines(self, port: int) -> list[str]:
        """Return how a server is told where it listens."""
        if self.certificates is None:
            return [f"port {port}"]
        return [
            "port 0",
            f"tls-port {port}",
            f"tls-cert-file {self.certificates}/ours.pem",
            f"tls-key-file {self.certificates}/ours.key",
            f"tls-ca-cert-file {self.certificates}/ours-ca.pem",
            "tls-auth-clients no",
            "tls-replication yes",
        ]


class WatchedRedis:
    """A primary, a replica of it, and sentinels."""

    name = "sentinel"
    lease = 2.0
    can = frozenset({LEASED, FAILS_OVER, VALUES})

    def __init__(self, folder: Path, program: Path, guard: RedisGuard | None = None) -> None:
        self.guard = guard or RedisGuard()
        self._scheme = "valkey" if "valkey" in program.name else "redis"
        self.ports = free_ports(2)
        self.sentinel_ports = free_ports(SENTINELS)
        first = self.ports[0]
        self.servers = [self._server(folder / f"{n}", program, n) for n in range(2)]
        self.sentinels: list[ServerProcess] = []
        for port in self.sentinel_ports:
            lines = [
                *self.guard.tls_lines(port),
                f"sentinel monitor main 127.0.0.1 {first} {QUORUM}",
                "sentinel down-after-milliseconds main 500",
                "sentinel failover-timeout main 2000",
            ]
            if self.guard.password:
                lines.append(f"sentinel auth-pass main {self.guard.password}")
            if word := self.guard.sentinel_password:
                lines += [f"requirepass {word}", f"sentinel sentinel-pass {word}"]
            self.sentinels.append(_child(folder / f"s{port}", program, lines, "--sentinel"))
        self._suspended = self.servers[0]

    def _server(self, folder: Path, program: Path, place: int) -> ServerProcess:
        lines = [
            *self.guard.tls_lines(self.ports[place]),
            'save ""',
            "repl-diskless-sync-delay 0",
            f"user {LINK_USER} on >{LINK_USER} +psync +replconf +ping",
            f"masteruser {LINK_USER}",
            f"masterauth {LINK_USER}",
        ]
        if self.guard.password:
            lines.append(f"requirepass {self.guard.password}")
        return _child(folder, program, lines)

    @property
    def port(self) -> int:
        return self.ports[0]

    def url(self, port: int | None = None, *, name: str = "main", parameters: str = "") -> str:
        """Name the sentinels, and the password of the servers; that of the sentinels is a parameter."""
        places = ",".join(f"127.0.0.1:{each}" for each in self.sentinel_ports)
        user = f":{self.guard.password}@" if self.guard.password else ""
        secure = "s" if self.guard.certificates else ""
        return f"{self._scheme}{secure}+sentinel://{user}{places}/{name}?lease={self.lease:g}{parameters}"

    # Talking to them

    def ask(self, port: int, *words: str) -> Any:
        """Run a command at a server or a sentinel."""
        guard = self.guard
        password = guard.sentinel_password if port in self.sentinel_ports else guard.password
        tls: dict[str, Any] = {}
        if guard.certificates is not None:
            tls = {"ssl": True, "ssl_ca_certs": str(guard.certificates / "ours-ca.pem")}
        with redis.Redis(
            host="127.0.0.1",
            port=port,
            password=password or None,
            socket_timeout=1.0,
            decode_responses=True,
            **tls,
        ) as client:
            return client.execute_command(*words)

    def primary(self) -> int:
        """Return the port of the server that a majority of the sentinels names."""
        for port in self.sentinel_ports:
            named = self._named(port)
            if sum(self._named(each) == named for each in self.sentinel_ports) >= QUORUM and named:
                return named
        raise OSError("no majority")

    def _named(self, port: int) -> int:
        with contextlib.suppress(OSError, redis.RedisError):
            return int(self.ask(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1])
        return 0

    def _is_settled(self) -> bool:
        """Whether the sentinels agree, and the primary that they name has its replica."""
        with contextlib.suppress(OSError, redis.RedisError):
            named = {self._named(port) for port in self.sentinel_ports}
            masters = [self.ask(port, "SENTINEL", "MASTER", "main") for port in self.sentinel_ports]
            facts = [(each["num-slaves"], each["num-other-sentinels"]) for each in masters]
            if len(named) > 1 or facts != [("1", f"{SENTINELS - 1}")] * SENTINELS:
                return False
            (primary,) = named
            replicas = self.ask(primary, "INFO", "replication")
            return bool(replicas.get("slave0", {}).get("state") == "online") and all(
                not {"s_down", "disconnected"} & set(each["flags"].split(","))
                for port in self.sentinel_ports
                for each in self._replicas(port)
            )
        return False

    def _replicas(self, port: int) -> list[dict[str, Any]]:
        said = self.ask(port, "SENTINEL", "REPLICAS", "main")
        return [
            each if isinstance(each, dict) else dict(zip(each[::2], each[1::2], strict=True))
            for each in said
        ]

    def settle(self) -> None:
        """Wait until a failover is possible."""
        wait_for(self._is_settled, self.sentinels[0].log)

    # What happens to them

    def begin(self) -> None:
        """Start all for the first time."""
        for server, port in zip(self.servers, self.ports, strict=True):
            server.start()
            wait_for(lambda port=port: self._answers(port), server.log)  # type: ignore[misc]
        self.ask(self.ports[1], "REPLICAOF", "127.0.0.1", f"{self.ports[0]}")
        for sentinel, port in zip(self.sentinels, self.sentinel_ports, strict=True):
            sentinel.start()
            wait_for(lambda port=port: self._answers(port), sentinel.log)  # type: ignore[misc]
            for name, milliseconds in PERIODS.items():
                self.ask(port, "SENTINEL", "DEBUG", name, f"{milliseconds}")
        self.settle()

    def _answers(self, port: int) -> bool:
        with contextlib.suppress(OSError, redis.RedisError):
            return bool(self.ask(port, "PING"))
        return False

    def kill(self) -> None:
        """Kill the primary."""
        self._now_primary().kill()

    def start(self) -> None:
        """Start what was killed: as an empty primary, until the sentinels tell it of another one."""
        for server, port in zip(self.servers, self.ports, strict=True):
            if not server.is_up:
                server.start()
                wait_for(lambda port=port: self._answers(port), server.log)  # type: ignore[misc]

    def suspend(self) -> None:
        """Stop the primary."""
        self._suspended = self._now_primary()
        self._suspended.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run again, as a primary for some seconds if another one was promoted."""
        self._suspended.signal(signal.SIGCONT)

    def fail_over(self) -> None:
        """Have the sentinels promote the replica of a primary that is well."""
        former = self.primary()

        def is_done() -> bool:
            # Refused while one is under way; one that finds no good replica ends without a promotion.
            with contextlib.suppress(redis.ResponseError):
                self.ask(self.sentinel_ports[0], "SENTINEL", "FAILOVER", "main")
            return self._is_promoted(former)

        wait_for(is_done, self.sentinels[0].log)

    def _is_promoted(self, former: int) -> bool:
        """Wait for a moment until another primary is named."""
        with contextlib.suppress(OSError):
            for _ in range(20):
                if self.primary() != former:
                    return True
                time.sleep(0.1)
        return False

    def cut_replica(self) -> None:
        """Let nothing that the primary writes from now on reach its replica."""
        primary = self.primary()
        self.ask(primary, "ACL", "SETUSER", LINK_USER, "off")
        self.ask(primary, "CLIENT", "KILL", "TYPE", "replica")

    def join_replica(self) -> None:
        """Let replicas call each server again that is up."""
        for server, port in zip(self.servers, self.ports, strict=True):
            if server.is_up:
                self.ask(port, "ACL", "SETUSER", LINK_USER, "on")

    def suspend_sentinels(self, count: int) -> None:
        """Stop that many of them."""
        for sentinel in self.sentinels[:count]:
            sentinel.signal(signal.SIGSTOP)

    def resume_sentinels(self) -> None:
        """Let all of them run."""
        for sentinel in self.sentinels:
            sentinel.signal(signal.SIGCONT)

    def _now_primary(self) -> ServerProcess:
        return self.servers[self.ports.index(self.primary())]

    def end(self) -> None:
        for child in (*self.sentinels, *self.servers):
            child.kill()


def _child(folder: Path, program: Path, lines: list[str], *options: str) -> ServerProcess:
    """Prepare a server that is called by the name of a server, whatever the name of its file is."""
    folder.mkdir(parents=True)
    called = folder / ("valkey-server" if "valkey" in program.name else "redis-server")
    called.symlink_to(program)
    (folder / "conf").write_text("\n".join(["bind 127.0.0.1", *lines]), encoding="utf-8")
    return ServerProcess(folder, [str(called), str(folder / "conf"), *options])


def redis_program() -> Path:
    """Return the server of Debian's package of tools, which has TLS, as that of the wheel has not."""
    if not DEBIAN_REDIS.exists():
        raise SystemServerMissing("no Redis: install redis-tools")
    return DEBIAN_REDIS


@contextlib.contextmanager
def watched(
    folder: Path, program: Path | None = None, guard: RedisGuard | None = None
) -> Iterator[WatchedRedis]:
    """Run a server with its replica and its sentinels: Valkey, if no other program is given."""
    made = WatchedRedis(folder, program or valkey_program(), guard)
    try:
        made.begin()
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def watched_debian(folder: Path) -> Iterator[WatchedRedis]:
    """Run Redis of Debian with a replica and sentinels."""
    with watched(folder, redis_program()) as made:
        yield made
