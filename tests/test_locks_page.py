"""What the pages about locks show is what happens."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import coterie
import coterie.sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POSTGRES = shutil.which("initdb") or next(
    map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None
)
DOCS = Path(__file__).parent.parent / "docs"
BOUND_SECONDS = 30


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_URL", raising=False)
    monkeypatch.setenv("COTERIE_DIR", str(tmp_path / "locks"))
    command = tmp_path / "bin" / "coterie"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom coterie.cli import main\nmain()\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")


def blocks(language: str, page: str = "locks.md") -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found
    return found


@pytest.mark.parametrize("page", ["locks.md", "members.md", "moving.md", "once.md", "values.md"])
def test_the_sessions_print_what_is_shown(page: str) -> None:
    session = "".join(blocks("pycon", page))
    examples = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    assert len(examples.examples) >= 9
    failures: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("block", [*blocks("console"), *blocks("console", "once.md")])
def test_the_commands_print_what_is_shown(block: str) -> None:
    command, shown = block.removeprefix("$ ").split("\n", 1)
    outcome = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, timeout=BOUND_SECONDS
    )
    assert changing(outcome.stdout) == changing(shown)
    assert outcome.stderr == ""


def changing(text: str) -> str:
    """Leave out what is different every time: tokens, processes, times and the columns' width."""
    for pattern, stand_in in (
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d UTC\b", "TIME"),
        (r"\b\d{16}\b", "TOKEN"),
        (r"\b[\w.-]+:\d+\b", "HOST:PID"),
        (r"\b[\d.]+ s ago", "TIME"),
        (r"\b0\.\d s\b", "TOOK"),
        (r" +", " "),
    ):
        text = re.sub(pattern, stand_in, text)
    return text


@pytest.mark.parametrize("block", blocks("python"))
def test_the_programs_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "locks.md", "exec"), {})  # noqa: S102 - it is our own page
    assert capsys.readouterr().out == "inside with nightly True\n"


@pytest.fixture
def psql() -> Iterator[Callable[..., str]]:
    """Run a PostgreSQL server of our own on a socket in a folder; give a way to run SQL on it."""
    assert POSTGRES is not None
    programs = Path(POSTGRES).parent
    # Its server refuses to run as root; any other user will do, and has to reach the folder.
    user = "nobody" if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="coterie-") as path:
        if user:
            shutil.chown(path, user)
        initdb = [str(programs / "initdb"), "-D", f"{path}/data", "-U", "test", "-A", "trust", "-N"]
        subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=path)
        postgres = [str(programs / "postgres"), "-D", f"{path}/data", "-k", path, "-h", "", "-F"]
        with subprocess.Popen(postgres, stderr=subprocess.PIPE, user=user, cwd=path) as server:
            assert server.stderr is not None
            for line in server.stderr:
                if b"ready to accept connections" in line:
                    break

            def run(sql: str, **values: object) -> str:
                given = [f"--set={name}={value}" for name, value in values.items()]
                command = ["psql", "-X", "-q", "-A", "-t", "-h", path, "-U", "test", *given]
                done = subprocess.run(
                    [*command, "postgres"], input=sql, check=True, capture_output=True, text=True
                )
                return done.stdout.strip()

            try:
                yield run
            finally:
                server.terminate()
                server.communicate(timeout=BOUND_SECONDS)


@pytest.mark.skipif(
    POSTGRES is None or shutil.which("psql") is None, reason="PostgreSQL is not installed"
)
def test_the_fence_of_the_page_works_in_postgresql(psql: Callable[..., str]) -> None:
    """The tokens are real ones: of a worker that was overtaken, and of the one that overtook it."""
    create, update = blocks("sql")
    psql(create)
    with coterie.sync.connect() as c:
        with c.lock("report") as slow:
            pass
        with c.lock("report") as quick:
            assert psql(update, text="by the second worker", token=quick.token) != ""
    assert psql(update, text="by the first worker", token=slow.token) == "", "it comes too late"
    assert psql("SELECT text FROM report") == "by the second worker"
