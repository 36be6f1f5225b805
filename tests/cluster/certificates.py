"""Certificates for tests, and what guards the clusters of tests that run with all of it, and without."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certificates(folder: Path, name: str) -> None:
    """Make an authority, and one certificate signed by it, for 127.0.0.1."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    ca = ["-x509", "-days", "2", "-subj", f"/CN={name}-ca"]
    openssl(folder, "req", *key, *ca, "-keyout", f"{name}-ca.key", "-out", f"{name}-ca.pem")
    signed = ["-CA", f"{name}-ca.pem", "-CAkey", f"{name}-ca.key"]
    own = ["-x509", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    end = ["-addext", "basicConstraints=critical,CA:FALSE"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
    openssl(folder, "req", *key, *own, *end, *signed, *files)


def tls(folder: Path, name: str, ca: str | None = None) -> dict[str, Any]:
    return {
        "ca": str(folder / f"{ca or name}-ca.pem"),
        "certificate": str(folder / f"{name}.pem"),
        "key": str(folder / f"{name}.key"),
    }


def guard(folder: Path) -> dict[str, Any]:
    """Write a secret of the cluster and one of operators; return what its file says of them and of TLS."""
    secrets = {
        "secret-file": "a secret of all programs",
        "operator-secret-file": "a secret of operators alone",
    }
    for name, secret in secrets.items():
        path = folder / name
        path.write_text(secret)
        path.chmod(0o600)
    return {"tls": tls(folder, "ours")} | {name: str(folder / name) for name in secrets}


def variables(guarded: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of programs and nodes that have no file of the cluster."""
    if not guarded:
        return {}
    encryption = {f"COTERIE_TLS_{name.upper()}": path for name, path in guarded["tls"].items()}
    secrets = ("secret-file", "operator-secret-file")
    named = {f"COTERIE_{name.upper().replace('-', '_')}": guarded[name] for name in secrets}
    return encryption | named


# What clusters of the kits have in their configuration; a fixture sets it for one test.
GUARD: dict[str, Any] = {}
