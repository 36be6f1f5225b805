"""Local nodes: a cluster on ports of the loopback interface, in this event loop or in processes.

`coterie serve --dev`, the demonstration and the tests start their nodes here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.cluster.membership.ports import free_ports
from coterie.cluster.node import Node
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path

    from coterie.cluster.membership.config import Config
    from coterie.errors import CoterieError

PORT_MAX = 65535


def node_names(count: int) -> list[str]:
    """Return the usual names: n1, n2 and so on."""
    return [f"n{number}" for number in range(1, count + 1)]


def local_document(names: Iterable[str], first_port: int = 0, **settings: Any) -> dict[str, Any]:
    """Return the document of a cluster; 0 as first port chooses ports that are free."""
    chosen = list(names)
    count = len(chosen)
    ports = [first_port + place for place in range(count)] if first_port else free_ports(count)
    if max(ports, default=0) > PORT_MAX:
        raise ConfigError(
            f"{count} ports from {first_port} on exceed {PORT_MAX}: choose a lower --port"
        )
    nodes = {
        name: {"address": f"127.0.0.1:{port}"} for name, port in zip(chosen, ports, strict=True)
    }
    return {**settings, "nodes": nodes}


def write_document(document: dict[str, Any], folder: Path) -> Path:
    """Write the cluster file of a document whose settings are texts and numbers; return its path."""
    settings = {name: value for name, value in document.items() if name not in ("nodes", "tls")}
    settings |= {f"tls.{name}": value for name, value in document.get("tls", {}).items()}
    # A text or a number is written in TOML as in JSON.
    lines = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in settings.items()]
    for name, node in document["nodes"].items():
        lines += [f"[nodes.{name}]", *(f'{key} = "{text}"' for key, text in node.items())]
    path = folder / "coterie.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def url_of(config: Config) -> str:
    """Return the URL by which programs reach a cluster."""
    return "coterie://" + ",".join(str(member.address) for member in config.membership.members)


@contextlib.asynccontextmanager
async def running(
    config: Config, on_failure: Callable[[CoterieError], None] | None = None
) -> AsyncIterator[list[Node]]:
    """Run all nodes of a configuration in this event loop, voting at once; those in the list are stopped."""
    options: dict[str, Any] = {} if on_failure is None else {"on_failure": on_failure}
    names = [member.name for member in config.membership.members]
    nodes = [Node(config, name, new_cluster=True, **options) for name in names]
    try:
        for node in nodes:
            await node.start()
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


class NodeProcess:
    """`coterie serve` for one node, in a process of its own.

    Ctrl-C reaches us and not the node. Its input ends when we end, however that happens, and then it ends, too.
    """

    def __init__(
        self, name: str, log: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it with these arguments and variables; its output is appended to the log."""
        self.name = name
        self._log = log
        self._stopped = False
        # -P: nothing in the caller's directory passes for one of our modules.
        command = [sys.executable, "-P", "-m", "coterie", "serve", "--node", name, "--until-eof"]
        with log.open("ab") as file:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, *arguments],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env=own_environment() | dict(environment or {}),
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def condition(self) -> str:
        """Return up, stopped or dead."""
        if self._process.poll() is not None:
            return "dead"
        return "stopped" if self._stopped else "up"

    def send(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """Freeze it; its connections stay open, and nothing answers on them."""
        self.send(signal.SIGSTOP)
        self._stopped = True

    def go_on(self) -> None:
        """Resume it; to the node no time has passed."""
        self.send(signal.SIGCONT)
        self._stopped = False

    def kill(self) -> None:
        """Kill it, as `kill -9` does, and wait for its end."""
        self._process.kill()
        self.wait()

    def terminate(self, limit: float) -> int:
        """Let it end by itself within some seconds; return its exit status."""
        self._process.terminate()
        return self.wait(limit)

    def wait(self, limit: float | None = None) -> int:
        """Wait for its end for some seconds at most; return its exit status."""
        status = self._process.wait(limit)
        assert self._process.stdin is not None
        self._process.stdin.close()
        return status

    def last_words(self) -> str:
        """Return the last line of its log."""
        return last_line(self._log)


def own_environment() -> dict[str, str]:
    """Return the environment without the settings of another cluster, which the caller may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COTERIE_")}


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line), "no message")
