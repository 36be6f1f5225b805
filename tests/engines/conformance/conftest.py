"""For each engine one server, which lives as long as the tests."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING

import pytest

from coterie.lab.servers.child import ServerMissing
from tests.engines.conformance.suppliers import SUPPLIERS, leave_out
from tests.engines.conformance.users import Users

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.servers.supplier import Supplier

NUMBERS = itertools.count(1)
# Tests that wait for several leases or restarts, and of what the engine has no part in, take longest on SeaweedFS, where
# writes of one object at the same moment may wait for a second. They run there where COTERIE_TEST_ENGINES is `all`.
LONG_ON_S3 = {
    "test_broken_holds": (
        "fight_for_a_lock",
        "is_over_before_the_next",
        "renews_and_does_not_answer",
        "stopped_is_never_valid",
    ),
    "test_once_engines": ("remembers_what_has_run",),
    "test_broken_links": ("resets", "silence"),
    "test_conformance": ("outlast", "in_one_order"),
}


@pytest.fixture(scope="session", params=list(SUPPLIERS))
def supplier(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Supplier]:
    """Run each engine in turn."""
    folder = tmp_path_factory.mktemp(request.param) / "server"
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(SUPPLIERS[request.param](folder))
        except ServerMissing as error:
            leave_out(error)
        yield made


@pytest.fixture(autouse=True)
def in_good_time(request: pytest.FixtureRequest) -> None:
    """Leave out what takes long."""
    if "[s3" not in request.node.name or os.environ.get("COTERIE_TEST_ENGINES") == "all":
        return
    words = LONG_ON_S3.get(request.node.path.stem)
    if words is not None and any(word in request.node.name for word in words):
        pytest.skip("s3: takes long; COTERIE_TEST_ENGINES=all runs it")


@pytest.fixture
def name() -> str:
    """Return the name of a lock that no other test uses."""
    return f"lock{next(NUMBERS)}"


@pytest.fixture
def users(supplier: Supplier) -> Iterator[Users]:
    """Start programs that use locks of the engine."""
    with Users(supplier.url()) as made:
        yield made
