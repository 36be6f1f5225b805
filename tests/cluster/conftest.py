"""What tests of the cluster share: certificates, and the same tests with secrets over TLS."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cluster.certificates import GUARD, certificates, guard, variables

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


@pytest.fixture(params=["open", "guarded"])
def open_and_guarded(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Run a test twice: the second time with TLS, a secret, and another one of operators.

    Files name them for nodes, and the environment for what has a URL: programs, commands and nodes that join.
    """
    if request.param == "guarded":
        GUARD.update(guard(request.getfixturevalue("certificate_folder")))
        for name, value in variables(GUARD).items():
            monkeypatch.setenv(name, value)
    try:
        yield
    finally:
        GUARD.clear()
