"""The laboratory, served for the tests of a file."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.processes import BOUND_SECONDS, directory, line

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the laboratory for all tests, and end it as a person would."""
    with directory(tmp_path_factory.mktemp("lab")) as started:
        serving = started.start("lab", "--port", "0", "--no-open")
        yield line(serving)
        serving.send_signal(signal.SIGINT)
        assert serving.wait(BOUND_SECONDS) == 0
