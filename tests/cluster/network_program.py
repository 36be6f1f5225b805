"""A cluster on five hosts of one machine, whose cables are pulled; runs in namespaces of its own.

Start it by `unshare -rmn`: it is root there, of nothing but that network, and all is gone with it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from coterie.cluster.admin.status import HEALTHY, inspect
from coterie.cluster.url import make_visit
from coterie.errors import Unavailable
from tests.cluster.local_cluster import COTERIE, Program

NODES = "abc"
HOSTS = (*NODES, "p", "q")
ADDRESSES = {host: f"10.7.0.{number}" for number, host in enumerate(HOSTS, 1)}
URL = "coterie://" + ",".join(f"{ADDRESSES[node]}:7420" for node in NODES)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def build() -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    ip("link", "set", "lo", "up")
    ip("link", "add", "bridge", "type", "bridge")
    ip("addr", "add", "10.7.0.254/24", "dev", "bridge")
    ip("link", "set", "bridge", "up")
    for host, address in ADDRESSES.items():
        ip("netns", "add", host)
        ip("link", "add", f"to-{host}", "type", "veth", "peer", "name", "eth0", "netns", host)
        ip("link", "set", f"to-{host}", "master", "bridge", "up")
        ip("-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", host, "link", "set", "eth0", "up")


def cable(host: str, state: str) -> None:
    ip("link", "set", f"to-{host}", state)


def serve(folder: Path) -> list[subprocess.Popen[bytes]]:
    lines = ['cluster = "test"', "lease = 1.0", 'data = "data"']
    for node in NODES:
        lines += [f"[nodes.{node}]", f'address = "{ADDRESSES[node]}:7420"']
    config = folder / "coterie.toml"
    config.write_text("\n".join(lines))
    command = [*COTERIE, "serve", "--config", str(config), "--new-cluster", "--open", "--quiet"]
    command.append("--node")
    return [
        subprocess.Popen(["ip", "netns", "exec", node, *command, node], stderr=subprocess.DEVNULL)
        for node in NODES
    ]


def healthy() -> None:
    """Wait until all vote; the bridge itself is a host of the network."""
    while True:
        try:
            state = asyncio.run(inspect(make_visit(URL), locks=False))
        except Unavailable:
            continue
        if state.health == HEALTHY:
            return


def program(host: str, *arguments: str) -> Program:
    return Program(URL, arguments, ("ip", "netns", "exec", host))


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def play() -> None:
    first = program("p", "hold", "x")
    token = int(first.read()[1])
    say("the first holds")

    second = program("q", "hold", "x")
    cable("p", "down")
    later = int(second.read()[1])
    assert later > token
    assert first.read() == ["lost"]
    say("the second holds with a larger token, and the first has lost")

    for node in NODES[:2]:
        cable(node, "down")
    assert second.read() == ["lost"]
    third = program("q", "hold", "x")
    assert third.read() == ["no-quorum"]
    say("without a majority the second has lost, and a third finds no quorum")

    for host in ("p", *NODES[:2]):
        cable(host, "up")
    healthy()
    fourth = program("p", "hold", "x")
    assert int(fourth.read()[1]) > later
    say("with the cables back a fourth holds with a larger token")
    assert fourth.rest() == [["valid"], ["released"]]


def main() -> None:
    build()
    with tempfile.TemporaryDirectory() as folder:
        nodes = serve(Path(folder))
        try:
            healthy()
            play()
        finally:
            for node in nodes:
                node.kill()
                node.wait()


main()
