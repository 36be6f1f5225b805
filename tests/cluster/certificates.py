"""Certificates for tests, and which tests run over TLS as well as over plain connections."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


# What clusters of the kits have in their configuration; a fixture sets it for one test.
ENCRYPTION: dict[str, dict[str, str]] = {}
