"""What tests of the cluster share: certificates, and the same tests over TLS."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cluster.certificates import ENCRYPTION, certificates, tls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def certificate_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    made = tmp_path_factory.mktemp("certificates")
    certificates(made, "ours")
    certificates(made, "theirs")
    return made


@pytest.fixture(params=["plain", "tls"])
def plain_and_tls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test twice: its clusters are encrypted the second time."""
    if request.param == "tls":
        ENCRYPTION["tls"] = tls(request.getfixturevalue("certificate_folder"), "ours")
    try:
        yield
    finally:
        ENCRYPTION.clear()
