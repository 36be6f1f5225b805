"""For each engine one server, which lives as long as the tests."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance.suppliers import SUPPLIERS, Missing
from tests.engines.conformance.users import Users

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines.conformance.suppliers import Supplier

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session", params=list(SUPPLIERS))
def supplier(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Supplier]:
    """Run each engine in turn."""
    folder = tmp_path_factory.mktemp(request.param) / "server"
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(SUPPLIERS[request.param](folder))
        except Missing as error:
            if os.environ.get("COTERIE_TEST_ENGINES") == "all":
                pytest.fail(str(error))
            pytest.skip(str(error))
        yield made


@pytest.fixture
def name() -> str:
    """Return the name of a lock that no other test uses."""
    return f"lock{next(NUMBERS)}"


@pytest.fixture
def users(supplier: Supplier) -> Iterator[Users]:
    """Start programs that use locks of the engine."""
    with Users(supplier.url()) as made:
        yield made
