"""Where a system lacks what a command needs, the command says so; nothing else is kept from it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from coterie.cli.root import COMMANDS, LINUX_COMMANDS, POSIX_COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parent.parent.parent / "src"
NOT_ON_WINDOWS = {"fcntl", "grp", "pty", "pwd", "resource", "termios"}
SIGNALS = {"SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2"}
REFUSED = "coterie.engines.file"  # as a whole, when it is imported, with a reason


@pytest.mark.parametrize("name", POSIX_COMMANDS)
def test_windows_is_told_which_commands_need_its_signals(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert run([name, "x", "true"]) == 78
    assert f"coterie {name} needs the signals of a POSIX system" in capsys.readouterr().err


@pytest.mark.parametrize("platform", ["darwin", "win32"])
@pytest.mark.parametrize("name", LINUX_COMMANDS)
def test_others_are_told_which_commands_need_linux(
    name: str, platform: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert run([name]) == 78
    assert f"coterie {name} needs Linux" in capsys.readouterr().err


def path_of(module: str) -> Path | None:
    for path in (
        SOURCE / module.replace(".", "/") / "__init__.py",
        SOURCE / f"{module.replace('.', '/')}.py",
    ):
        if path.exists():
            return path
    return None


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported on Windows."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        condition = ast.unparse(node.test) if isinstance(node, ast.If) else ""
        if "TYPE_CHECKING" in condition or "platform != 'win32'" in condition:
            continue
        yield node
        for part in ("body", "orelse", "handlers", "finalbody"):
            yield from at_import(getattr(node, part, []))


def imported(module: str) -> Iterator[str]:
    path = path_of(module)
    assert path is not None
    for node in at_import(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_with(first: str) -> set[str]:
    """Return all modules that are imported along with one."""
    found, waiting = set[str](), [first]
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.add(module)
        if path_of(module) is not None:
            parents = [module.rsplit(".", level)[0] for level in range(1, module.count(".") + 1)]
            waiting += [*parents, *imported(module)]
    return found


def missing_signals(module: str) -> set[str]:
    path = path_of(module)
    if path is None:
        return set()
    statements = at_import(ast.parse(path.read_text(encoding="utf-8")).body)
    plain = [node for node in statements if not isinstance(node, ast.ClassDef)]
    names = {n.attr for node in plain for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return names & SIGNALS


OTHERS = [name for name in COMMANDS if name not in (*POSIX_COMMANDS, *LINUX_COMMANDS)]


@pytest.mark.parametrize(
    "module",
    [
        *(f"coterie.cli.{COMMANDS[name][0]}" for name in OTHERS),
        *(
            "coterie",
            "coterie.sync",
            "coterie.cluster.join",
            "coterie.cluster.url",
            "coterie.testing",
        ),
        *("coterie.engines.etcd", "coterie.engines.postgresql", "coterie.engines.redis"),
        *("coterie.engines.mariadb", "coterie.engines.nats", "coterie.engines.s3"),
        "coterie.engines.zookeeper",
        *("coterie.cluster.store", "coterie.transactions.store"),
    ],
)
def test_all_others_can_be_imported_without_what_only_posix_has(module: str) -> None:
    found = imported_with(module)
    assert not found & NOT_ON_WINDOWS
    assert [name for name in found if name.startswith(REFUSED)] == []
    assert {name: signals for name in found if (signals := missing_signals(name))} == {}


def test_the_search_finds_what_it_looks_for() -> None:
    """What is refused needs it, else nothing would have to be refused."""
    assert "fcntl" in imported_with("coterie.cli.demo")
    assert "fcntl" in imported_with("coterie.engines.file.engine")
    assert missing_signals("coterie.cli.common.forwarded")
