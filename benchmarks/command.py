"""What the commands that measure us beside peers have in common."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.locks.peers.base import advice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from benchmarks.locks.peers.base import Need


def make_parser(
    program: str, description: str | None, peers: Collection[str]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chosen = parser.add_argument
    chosen("-p", "--peers", default=",".join(peers), help=f"of {', '.join(peers)}")
    chosen("--full", action="store_true", help="longer windows and medians of several repetitions")
    chosen("-o", "--output", choices=("table", "markdown", "json"), default="table")
    chosen("--from", dest="source", type=Path, help="show the results in this file again")
    return parser


def parse(parser: argparse.ArgumentParser, **known: Collection[str]) -> argparse.Namespace:
    """Read the command line; options of these names are lists of what is known."""
    options = parser.parse_args()
    for name, choices in known.items():
        asked = getattr(options, name).split(",")
        if unknown := [each for each in asked if each not in choices]:
            parser.error(f"unknown {name}: {', '.join(unknown)}; choose from: {', '.join(choices)}")
        setattr(options, name, asked)
    return options


def date() -> str:
    return dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Tell what is measured, as far as it is installed."""
    found = {"Python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def unmet(needs: dict[str, Sequence[Need]]) -> dict[str, list[str]]:
    """Find out who of these peers cannot take part, and say how that can be changed."""
    missing = {}
    for key, needed in needs.items():
        absent = [need for need in needed if not need.is_met()]
        if absent:
            missing[key] = [need.package for need in absent]
            say(f"{key} is left out; it needs: {advice(absent)}")
    return missing


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
