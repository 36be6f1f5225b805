"""The commands on servers that others make: etcd and Valkey, as a shell sees them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.cli import run
from coterie.cluster.membership.ports import free_ports
from tests.cli.engine_servers import KINDS, engine_server
from tests.processes import BOUND_SECONDS, line, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.engine_servers import EngineServer

# Holds one lock and wants another when it is told so; does not look for deadlocks.
CROSSING = """
import sys, coterie
with coterie.sync.connect(sys.argv[1] + "&deadlock-detection=off") as c, c.lock(sys.argv[2]):
    print("holds", flush=True)
    sys.stdin.readline()
    c.lock(sys.argv[3]).acquire()
"""


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineServer]:
    """A server that all tests use which leave it alive."""
    kind: str = request.param
    with engine_server(kind, tmp_path_factory.mktemp(kind)) as started:
        # The first lock on a Redis that has just started is granted when former leases are over.
        with coterie.sync.connect(started.url) as c, c.lock("first", timeout=BOUND_SECONDS):
            pass
        yield started


def facts(server: EngineServer, capsys: pytest.CaptureFixture[str], *views: str) -> dict[str, Any]:
    assert run(["status", *views, "--url", server.url, "-o", "json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def lock(
    server: EngineServer, capsys: pytest.CaptureFixture[str], name: str
) -> dict[str, Any] | None:
    """Return what is shown of one lock."""
    locks = facts(server, capsys, "locks")["locks"]
    return next((each for each in locks if each["name"] == name), None)


def test_a_command_runs_with_the_token_in_its_environment(server: EngineServer) -> None:
    done = [
        server.run("lock", "job", "-c", "echo $COTERIE_LOCK $COTERIE_TOKEN; exit 3") for _ in "ab"
    ]
    assert [each.returncode for each in done] == [3, 3]
    names, tokens = zip(*(each.stdout.split() for each in done), strict=True)
    assert names == ("job", "job")
    assert int(tokens[0]) < int(tokens[1])


def test_a_leader_is_elected_and_observed(server: EngineServer) -> None:
    leader = server.start("elect", "boss")
    name, token = line(leader).split()
    listener = server.start("elect", "-l", "boss")
    assert line(listener).split()[:2] == [name, token] == ["boss", token]


def test_status_shows_the_holder_and_the_waiter(
    server: EngineServer, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = server.start("lock", "nightly")
    name, token = line(holder).split()
    waiter = server.start("lock", "nightly")
    until(lambda: (lock(server, capsys, name) or {"waiters": []})["waiters"])
    shown = lock(server, capsys, name)
    assert shown is not None
    (first,), (second,) = shown["holders"], shown["waiters"]
    assert (first["token"], second["token"], shown["silent"]) == (int(token), None, [])
    assert first["owner"].endswith(f":{holder.pid}")
    assert second["owner"].endswith(f":{waiter.pid}")
    assert run(["status", "locks", "--url", server.url]) == 0
    assert f"nightly  {first['owner']}  {token}" in capsys.readouterr().out
    assert run(["status", "waiters", "--url", server.url]) == 0
    assert f"nightly      1  {second['owner']}" in capsys.readouterr().out
    assert run(["status", "graph", "--url", server.url]) == 0
    assert "no deadlock" in capsys.readouterr().out
    assert server.run("lock", "-n", "nightly", "true").returncode == 75


def test_status_shows_the_server(server: EngineServer, capsys: pytest.CaptureFixture[str]) -> None:
    (node,) = facts(server, capsys)["nodes"]
    assert (node["address"], node["trouble"]) == (f"127.0.0.1:{server.port}", "")
    assert node["version"]
    assert run(["status", "--url", server.url]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        node["address"],
        node["version"],
        node["role"],
        "answers",
    ]


def test_the_graph_shows_programs_that_wait_for_each_other(
    server: EngineServer, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = [
        server.python("-c", CROSSING, server.url, *names)
        for names in (("one", "two"), ("two", "one"))
    ]
    for each in programs:
        assert line(each) == "holds"
    for each in programs:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    until(lambda: run(["status", "graph", "--url", server.url]) == 1)
    capsys.readouterr()
    assert run(["status", "graph", "--url", server.url, "-o", "dot"]) == 1
    drawn = capsys.readouterr().out
    assert all(f":{each.pid}" in drawn for each in programs)


def test_code_without_an_event_loop(server: EngineServer) -> None:
    with coterie.sync.connect(server.url) as c:
        with c.lock("threads", timeout=BOUND_SECONDS) as held:
            assert [holder.token for holder in c.holders("threads")] == [held.token]
        with c.lock_all("printer", "scanner", timeout=BOUND_SECONDS) as both:
            assert sorted(both.tokens) == ["printer", "scanner"]
        with c.semaphore("downloads", 2, timeout=BOUND_SECONDS) as permit:
            assert permit.valid


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_session_ends_the_command(kind: str, tmp_path: Any) -> None:
    with engine_server(kind, tmp_path) as server:
        holder = server.start("lock", "-c", "echo inside; exec sleep 1000", "a")
        assert line(holder) == "inside"
        server.kill()
        _, talk = holder.communicate(timeout=BOUND_SECONDS)
        assert holder.returncode == 79
        assert talk.splitlines()[-1].startswith("coterie: lock 'a': ")
        assert server.run("status").returncode == 69


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", [["lock", "a", "true"], ["elect", "a", "true"], ["status"]])
def test_where_nothing_listens_one_line_says_so(
    kind: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    assert run([command[0], "--url", f"{kind}://127.0.0.1:{port}", *command[1:]]) == 69
    assert capsys.readouterr() == ("", f"coterie: {kind} at 127.0.0.1:{port}: Connection refused\n")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", [["lock", "a", "true"], ["status"]])
def test_an_unknown_parameter_is_refused(
    kind: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{kind}://127.0.0.1?leese=3"
    assert run([command[0], "--url", url, *command[1:]]) == 64
    shown = f"{kind}://127.0.0.1?leese=…"  # its value may be a secret
    assert f"{shown}: unknown parameter 'leese'; choose from: lease," in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "library"),
    [
        ("etcd", "grpc"),
        ("mariadb", "pymysql"),
        ("mysql", "pymysql"),
        ("postgresql", "asyncpg"),
        ("redis", "redis"),
        ("valkey", "redis"),
        ("zookeeper", "kazoo"),
    ],
)
@pytest.mark.parametrize("command", [["lock", "a", "true"], ["status"]])
def test_a_client_library_that_is_missing_is_named_with_its_extra(
    kind: str,
    library: str,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    extra = {"valkey": "redis", "mysql": "mariadb"}.get(kind, kind)
    for name in list(sys.modules):
        if name.startswith(f"coterie.engines.{extra}") or name.split(".")[0] == library:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    assert run([command[0], "--url", f"{kind}://127.0.0.1", *command[1:]]) == 78
    assert f"pip install 'coterie[{extra}]'" in capsys.readouterr().err


def test_a_job_whose_server_is_away_does_not_run_and_waits_as_long_as_is_said(
    tmp_path: Path,
) -> None:
    with engine_server("nats", tmp_path) as server:
        job = ("--period", "1", "nightly", "--", "echo", "ran")
        server.kill()
        for wait in ((), ("-w", "0.2")):
            done = server.run("once", *wait, *job)
            assert (done.returncode, done.stdout) == (coterie.Unavailable.exit_status, "")
            assert "nats at 127.0.0.1" in done.stderr
        waiting = server.start("once", "-w", "60", *job)
        assert waiting.stderr is not None
        assert "nats at 127.0.0.1" in waiting.stderr.readline()
        server.supplier.start()
        assert waiting.communicate(timeout=BOUND_SECONDS)[0] == "ran\n"
        assert waiting.returncode == 0
