"""`coterie serve` and `coterie status`, as a shell sees them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.cli import run
from coterie.cli.serve import AcceptErrors
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from tests.cluster.local_cluster import (
    COTERIE,
    PATIENCE_SECONDS,
    Processes,
    document,
    running,
    url_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run three nodes on this machine."""
    command = [*COTERIE, "serve", "--dev", "3", "--port", "0", "--lease", "2s", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        line = server.stdout.readline().decode().strip()
        assert line.startswith("coterie://127.0.0.1:")
        yield line
        server.terminate()
        _, talk = server.communicate(timeout=PATIENCE_SECONDS)
        assert server.returncode == 0
        assert f"export COTERIE_URL={line}" in talk.decode()


def test_all_nodes_of_a_healthy_cluster_vote(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--url", url]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[::2][:2] for line in out.splitlines()[1:]] == [
        ["n1", "votes"],
        ["n2", "votes"],
        ["n3", "votes"],
    ]
    assert "cluster dev: healthy" in err


def test_locks_and_waiters_are_listed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    hold = [*COTERIE, "lock", "nightly"]
    environment = os.environ | {"COTERIE_URL": url}
    holder = subprocess.Popen(
        hold, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    waiter = subprocess.Popen(
        hold, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        first, second = (holder, waiter)
        if not _holds(holder, url, capsys):
            first, second = second, first
        assert first.stdout is not None
        name, token = first.stdout.readline().split()
        locks = _locks(url, capsys)
        assert [(lock["name"], lock["holders"][0]["token"]) for lock in locks] == [
            (name, int(token))
        ]
        assert locks[0]["waiters"][0]["owner"].endswith(f":{second.pid}")
        assert run(["status", "locks", "--url", url]) == 0
        assert f"nightly  {locks[0]['holders'][0]['owner']}" in capsys.readouterr().out
        assert run(["status", "waiters", "--url", url]) == 0
        assert f":{second.pid}" in capsys.readouterr().out
    finally:
        for process in (holder, waiter):
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_SECONDS)


def _locks(url: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert run(["status", "locks", "--url", url, "-o", "json"]) == 0
    locks: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["locks"]
    return locks


def _holds(process: subprocess.Popen[str], url: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Wait until one of the two holds and the other waits; tell whether it is this one that holds."""
    while True:
        locks = _locks(url, capsys)
        if locks and locks[0]["holders"] and locks[0]["waiters"]:
            return str(locks[0]["holders"][0]["owner"]).endswith(f":{process.pid}")


def test_the_flag_beats_the_environment_and_the_environment_beats_the_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coterie.toml").write_text('url = "nonsense:in-the-file"\n')
    for command in (["lock", "chosen", "true"], ["elect", "chosen", "true"]):
        monkeypatch.delenv("COTERIE_URL", raising=False)
        assert run(command) == 64
        assert "'nonsense'" in capsys.readouterr().err
        monkeypatch.setenv("COTERIE_URL", "odd:in-the-environment")
        assert run(command) == 64
        assert "'odd'" in capsys.readouterr().err
        assert run([command[0], "--url", url, *command[1:]]) == 0
    assert run(["status", "--url", url]) == 0


def test_a_lock_of_a_cluster_may_have_a_shorter_lease(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lock", "--url", url, "--lease", "500ms", "short", "true"]) == 0
    assert run(["lock", "--url", url, "--lease", "1m", "long", "true"]) == 64
    assert "lease must be from 0.1 s to 2 s, the lease of cluster 'dev'" in capsys.readouterr().err


def test_status_can_be_watched_until_somebody_interrupts(url: str) -> None:
    command = [*COTERIE, "status", "--url", url, "--watch", "--every", "10ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        heads = (line for line in watching.stdout if line.startswith("node"))
        assert next(heads) == next(heads) == next(heads)
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
    assert watching.returncode == 130


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["serve", "--port", "1"], 64, "--port and --lease need --dev"),
        (["serve", "--dev", "3", "--lease", "0"], 78, "lease must be at least 0.1 s, got 0 s"),
        (["serve", "--dev", "3", "--node", "a"], 64, "--dev takes no cluster file"),
        (["serve"], 78, "no such file: coterie.toml"),
        (["status", "--url", "odd:"], 64, "unknown kind of coordinator: 'odd'"),
        (["status", "graphs"], 64, "'graphs' is not one of"),
    ],
)
def test_what_makes_no_sense_is_said(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == status
    assert message in capsys.readouterr().err


def test_a_node_has_to_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "coterie.toml"
    path.write_text('[nodes.a]\naddress = "127.0.0.1:1"\n[nodes.b]\naddress = "127.0.0.1:2"\n')
    monkeypatch.delenv("COTERIE_NODE", raising=False)
    assert run(["serve", "--config", str(path)]) == 64
    assert "say which node this is with --node, one of: a, b" in capsys.readouterr().err
    assert run(["serve", "--config", str(path), "--node", "c"]) == 78
    assert "no node is called 'c'" in capsys.readouterr().err


def test_callers_that_cannot_be_accepted_cost_one_line_and_not_a_hundred_tracebacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        errors = AcceptErrors()
        accepting = {"message": "accept", "exception": OSError(errno.EMFILE, "Too many open files")}
        for _ in range(100):
            errors.handle(loop, accepting)
        errors.handle(loop, {"message": "something else", "exception": ValueError("odd")})

    asyncio.run(main())
    first, second = caplog.records
    assert "connections have to wait: Too many open files; at most " in first.getMessage()
    assert "something else" in second.getMessage()


def test_a_port_that_is_taken_is_said(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = url.rpartition(":")[2]
    assert run(["serve", "--dev", "1", "--port", port]) == 69
    assert f"on 127.0.0.1:{port}: " in capsys.readouterr().err


@pytest.mark.parametrize("end", ["signal", "end of input"])
def test_a_node_that_waits_for_the_cluster_that_it_joins_can_be_ended(
    end: str, tmp_path: Path
) -> None:
    (nobody, own) = (f"127.0.0.1:{port}" for port in free_ports(2))
    command = [*COTERIE, "serve", "--until-eof", "--node", "d", "--join", nobody]
    command += ["--listen", own, "--data", str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True) as node:
        assert node.stdin is not None
        assert node.stderr is not None
        try:
            assert "node d waits until the cluster that it joins" in node.stderr.readline()
            if end == "signal":
                node.terminate()
            else:
                node.stdin.close()
            assert node.wait(PATIENCE_SECONDS) == 0
        finally:
            node.kill()


def test_a_cluster_that_cannot_vote_says_so_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the first start two of three nodes are up: each waits to hear from the third."""
    cluster = Processes(tmp_path)
    cluster.start("a", "b")
    try:
        cluster.wait(lambda state: "from c first" in state.reason, "two nodes that have met")
        assert run(["status", "--url", cluster.url]) == 69
        out, err = capsys.readouterr()
        assert out.count("abstains: empty disk") == 2
        assert "cluster test: no quorum votes: a abstains: its data directory is empty" in err
        assert "start the nodes that are missing" in err
        assert run(["status", "--url", cluster.url, "-o", "json"]) == 69
        assert "from c first" in json.loads(capsys.readouterr().out)["reason"]
        assert run(["lock", "--url", cluster.url, "x", "true"]) == 69
        err = capsys.readouterr().err
        assert "lock 'x': no quorum of cluster 'test' votes (a abstains: its data directory" in err
        assert "coterie serve --new-cluster" in err
    finally:
        cluster.end()


def test_a_list_of_locks_that_is_cut_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("coterie.cluster.voter.report.LOCKS_MAX", 3)
    config = convert(document(1))

    async def main() -> None:
        async with running(config), coterie.connect(url_of(config)) as coordinator:
            async with coordinator.lock_all("a", "b", "c"):
                assert await asyncio.to_thread(run, [*status, "locks", "-o", "json"]) == 0
                whole, err = capsys.readouterr()
                assert json.loads(whole)["truncated"] is False
                assert "not complete" not in err
            async with coordinator.lock_all("a", "b", "c", "d", "e"):
                assert await asyncio.to_thread(run, [*status, "locks", "-o", "json"]) == 0
                cut, err = capsys.readouterr()
                assert (json.loads(cut)["truncated"], json.loads(cut)["locks_left_out"]) == (
                    True,
                    2,
                )
                assert len(json.loads(cut)["locks"]) == 3
                assert "the list is not complete: " in err
                assert "there are at least 2 more" in err
                assert await asyncio.to_thread(run, [*status, "graph"]) == 0
                assert "the graph is not complete: " in capsys.readouterr().err

    status = ["status", "--url", url_of(config)]
    asyncio.run(main())


def test_a_cluster_that_is_not_there_is_no_quorum(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.cluster.membership.discovery.DISCOVERY_SECONDS_MAX", 0.2)
    assert run(["status", "--url", "coterie://127.0.0.1:1"]) == 69
    assert "no node of the cluster can be reached" in capsys.readouterr().err
