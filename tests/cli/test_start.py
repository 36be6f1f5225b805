"""Commands start fast: none imports what it does not need. Modules are counted, not milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import coterie
from tests.processes import BOUND_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

LOADED = """
import json, sys
{body}
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def loaded(body: str) -> set[str]:
    """Run a program and return the modules that it has imported."""
    outcome = subprocess.run(
        [sys.executable, "-c", LOADED.format(body=body)],
        capture_output=True,
        text=True,
        check=True,
        timeout=BOUND_SECONDS,
    )
    return set(json.loads(outcome.stderr.splitlines()[-1]))


def loaded_by(*arguments: str) -> set[str]:
    """Run a command and return the modules that it has imported."""
    return loaded(f"from coterie.cli import run\nassert run({list(arguments)!r}) == 0")


def commands(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("coterie.cli.")}


def test_importing_coterie_imports_nothing_else() -> None:
    assert {name for name in loaded("import coterie") if name.startswith("coterie.")} == set()
    assert {"typing", "asyncio"} & (loaded("import coterie") - loaded("")) == set()


def test_every_public_name_is_imported_on_first_use_and_listed_before() -> None:
    assert set(coterie.__all__) <= set(dir(coterie))
    body = "import coterie\nfor name in coterie.__all__: assert name in dir(coterie)\n"
    body += "assert coterie.LockLost is coterie.LockLost\n"
    assert "coterie.errors" in loaded(body)
    assert "coterie.locks" not in loaded(body)


def test_help_imports_no_subcommand() -> None:
    modules = loaded_by("--help")
    shared = {name for name in modules if name.startswith("coterie.cli.common")}
    assert commands(modules) - shared == {"coterie.cli.root"}
    assert not {"asyncio", "numpy", "msgspec"} & modules


def test_a_check_imports_no_algorithm_but_its_own() -> None:
    modules = loaded_by("check", "ricart-agrawala", "-N", "2")
    families = ("coterie.algorithms.mutex.", "coterie.algorithms.election.")
    algorithms = {".".join(name.split(".")[:5]) for name in modules if name.startswith(families)}
    assert algorithms == {
        "coterie.algorithms.mutex.permission",
        "coterie.algorithms.mutex.permission.ricart_agrawala",
    }
    assert not {"asyncio", "coterie.lab.explore.timed", "numpy", "pathlib", "ssl"} & modules


def test_a_check_of_a_larger_model_imports_no_more_of_numpy_than_it_needs() -> None:
    modules = loaded_by("check", "lamport")
    assert "numpy" in modules
    assert not {"asyncio", "coterie.lab.explore.timed", "numpy.ma", "pathlib", "ssl"} & modules


def test_a_check_with_a_parameter_knows_all_of_them() -> None:
    assert "coterie.algorithms.election.bully" in loaded_by(
        "check", "raymond", "-N", "2", "--tree", "chain"
    )


def test_a_node_imports_no_helper_of_tests_and_that_helper_not_pytest() -> None:
    assert not {"coterie.testing", "pytest"} & loaded("import coterie.cli.serve")
    assert not {"coterie.sync", "pytest"} & loaded("import coterie.testing.nodes")


def test_importing_the_sync_face_needs_no_event_loop() -> None:
    modules = loaded("import coterie.sync") - loaded("")
    assert {name for name in modules if name.startswith("coterie")} == {"coterie", "coterie.sync"}
    assert not {"asyncio", "msgspec"} & modules
    assert len(modules) < 40


def test_every_name_of_the_sync_face_is_imported_on_first_use_and_listed_before() -> None:
    body = "import coterie.sync\nfor name in coterie.sync.__all__:\n"
    body += "    assert name in dir(coterie.sync)\n    assert getattr(coterie.sync, name).__name__ == name\n"
    assert "coterie.sync.once" in loaded(body)


def test_a_thread_that_takes_a_file_lock_imports_neither_jobs_nor_groups(tmp_path: Path) -> None:
    body = f"import coterie.sync\nwith coterie.sync.connect('file:{tmp_path}') as c:\n"
    body += "    c.lock('a').acquire().release()"
    modules = loaded(body)
    assert "coterie.engines.file.engine" in modules
    unused = ("coterie.locks.once", "coterie.sync.once", "coterie.sync.members", "coterie.cluster")
    assert not [name for name in modules if name.startswith(unused)]
