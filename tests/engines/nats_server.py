"""NATS servers of a test's own: one that is alone, or three that are a cluster."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coterie
from coterie.cluster.membership.ports import free_ports

if TYPE_CHECKING:
    from typing import Self

ENGINES = Path(__file__).parents[2] / ".venv" / "engines"
PROGRAM = ENGINES / "bin" / "nats-server"
MISSING = "" if PROGRAM.exists() else "no NATS: run `make .venv/engines/ready`"
START_SECONDS_MAX = 30


class NatsTestServer:
    """One server, or three; of three, the one that is killed or stopped leads the stream of the locks."""

    def __init__(
        self, size: int = 1, text: str = "", scheme: str = "nats", *, jetstream: bool = True
    ) -> None:
        self._scheme = scheme
        self._folder = Path(tempfile.mkdtemp(prefix="coterie-nats-"))
        self.ports = free_ports(2 * size)[:size]
        routes = free_ports(size) if size > 1 else []
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * size
        self._stopped = 0
        for place, port in enumerate(self.ports):
            lines = [
                f"server_name: n{place}",
                "host: 127.0.0.1",
                f"port: {port}",
                text,
            ]
            if jetstream:
                lines.append(f'jetstream {{ store_dir: "{self._folder}/{place}" }}')
            if routes:
                others = ", ".join(f"nats-route://127.0.0.1:{route}" for route in routes)
                lines.append(
                    f"cluster {{ name: c, listen: 127.0.0.1:{routes[place]}, routes: [{others}] }}"
                )
            self._config(place).write_text("\n".join(lines), encoding="utf-8")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def port(self) -> int:
        return self.ports[0]

    def url(self, lease: float | None = None, *, port: int | None = None, user: str = "") -> str:
        """Return the URL of the servers, or of what stands before one at another port."""
        places = ",".join(f"127.0.0.1:{each}" for each in ([port] if port else self.ports))
        query = "" if lease is None else f"?lease={lease:g}"
        return f"{self._scheme}://{user}{places}{query}"

    def start(self) -> None:
        """Start those that are not up, and wait until the locks can be used."""
        for place, process in enumerate(self._processes):
            if process is None:
                with (self._folder / "log").open("ab") as log:
                    self._processes[place] = subprocess.Popen(
                        [str(PROGRAM), "-c", str(self._config(place))],
                        stdout=log,
                        stderr=log,
                        stdin=subprocess.DEVNULL,
                    )
        end = time.monotonic() + START_SECONDS_MAX
        while not all(map(self._answers, self.ports)):
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server without a word."""
        self._end(signal.SIGKILL)

    def kill_follower(self) -> int:
        """Kill one that does not lead the stream; return which."""
        place = next(place for place in (1, 2, 0) if place != self._leader())
        self._signal(place, signal.SIGKILL)
        return place

    def begin(self) -> None:
        """Open the first run of servers that were never used, so that no lease is waited for."""
        with coterie.sync.connect(self.url(0.5)) as c, c.lock("first"):
            pass

    def stop(self) -> None:
        """Stop the server in good order."""
        self._end(signal.SIGTERM)

    def suspend(self) -> None:
        """Stop the server for a moment, as a machine does that hangs."""
        self._stopped = self._leader()
        self._signal(self._stopped, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(self._stopped, signal.SIGCONT)

    def lose_memory(self) -> None:
        """Remove all that the servers have written, while they are down."""
        for place in range(len(self.ports)):
            shutil.rmtree(self._folder / str(place), ignore_errors=True)

    def ask(self, subject: str, request: object = "", *, place: int = 0) -> dict[str, Any]:
        """Send a request, and return its answer."""
        body = request if isinstance(request, str) else json.dumps(request)
        with socket.create_connection(("127.0.0.1", self.ports[place]), 2) as line:
            said = f'CONNECT {{"verbose":false}}\r\nSUB answer 1\r\nPUB {subject} answer {len(body)}\r\n{body}\r\n'
            line.sendall(said.encode())
            found = b""
            while b"MSG answer" not in found or not found.endswith(b"\r\n"):
                part = line.recv(1 << 16)
                assert part, found
                found += part
        answer: dict[str, Any] = json.loads(found.partition(b"MSG answer")[2].split(b"\r\n")[1])
        return answer

    def subjects(self, of: str = "coterie.lock.>") -> list[str]:
        """List what stands in the stream."""
        found = self.ask("$JS.API.STREAM.INFO.coterie", {"subjects_filter": of})
        return sorted(found.get("state", {}).get("subjects", {}))

    def log(self) -> str:
        """Return what the servers have said."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def remove(self) -> None:
        """Kill the servers, and remove all that they have."""
        for place in range(len(self.ports)):
            self._signal(place, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _config(self, place: int) -> Path:
        return self._folder / f"{place}.conf"

    def _answers(self, port: int) -> bool:
        """Whether a server has begun, and JetStream with it: in a cluster that takes an election."""
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                pass
            if len(self.ports) == 1:
                return True
            found = self.ask("$JS.API.INFO", place=self.ports.index(port))
        except (OSError, AssertionError):
            return False
        return "error" not in found

    def _leader(self) -> int:
        if len(self.ports) == 1:
            return 0
        found = self.ask("$JS.API.STREAM.INFO.coterie")
        name = found.get("cluster", {}).get("leader", "n0")
        return int(name.removeprefix("n"))

    def _end(self, number: signal.Signals) -> None:
        self._signal(self._leader(), number)

    def _signal(self, place: int, number: signal.Signals) -> None:
        process = self._processes[place]
        if process is not None:
            process.send_signal(number)
            if number in (signal.SIGKILL, signal.SIGTERM):
                process.wait()
                self._processes[place] = None
