"""What the page about clusters shows is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from coterie.cluster.membership.config import ConfigFile, convert

PAGE = (Path(__file__).parent.parent / "docs" / "cluster.md").read_text(encoding="utf-8")
BOUND_SECONDS = 30
SHOWN_URL = "coterie://127.0.0.1:7420,127.0.0.1:7421,127.0.0.1:7422"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found


def sessions(block: str) -> list[tuple[str, str]]:
    """Cut a console block into commands and what each prints."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts]


def changing(text: str) -> str:
    """Leave out what is different every time: tokens, processes, ports, times and the columns' width."""
    for pattern, stand_in in (
        (r"\b\d{15,16}\b", "TOKEN"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"\b[\w.-]+:\d+\b", "HOST:PID"),
        (r"\b[\d.]+ s\b", "TIME"),
        (r" +", " "),
    ):
        text = re.sub(pattern, stand_in, text)
    return text


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    command = tmp_path / "bin" / "coterie"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom coterie.cli import main\nmain()\n")
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}


def test_the_commands_print_what_is_shown(environment: dict[str, str], tmp_path: Path) -> None:
    ((serve, url),), shown = (sessions(block) for block in blocks("console"))
    assert url.strip() == SHOWN_URL
    command = [*serve.split(), "--port", "0", "--quiet", "--until-eof"]
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as nodes:
        assert nodes.stdout is not None
        real_url = nodes.stdout.readline().strip()
        (export, _), *commands = shown
        assert export == f"export COTERIE_URL={SHOWN_URL}"
        for line, expected in commands:
            outcome = subprocess.run(
                ["sh", "-c", line],
                env={**environment, "COTERIE_URL": real_url},
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=BOUND_SECONDS,
            )
            assert changing(outcome.stdout) == changing(expected), line
        nodes.communicate(timeout=BOUND_SECONDS)
    assert nodes.returncode == 0, "it ends when its input does"


def test_the_configuration_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, *_ = blocks("toml")
    document = tomllib.loads(whole)
    monkeypatch.setattr(
        "coterie.cluster.membership.config.read_secret", lambda _: "0123456789abcdef"
    )
    config = convert(document)
    assert [member.name for member in config.membership.members] == ["a", "b", "c"]


def test_every_setting_is_explained() -> None:
    table = PAGE[PAGE.index("## Settings") : PAGE.index("## Operating it")]
    explained = set(re.findall(r"`([a-z-]+)`", table))
    written = {name.replace("_", "-") for name in ConfigFile.__struct_fields__}
    elsewhere = {
        "nodes",
        "url",
        "algorithm",
        "variant",
        "parameters",
        "secret-file",
        "tls",
        "store",
    }
    assert written - elsewhere <= explained
