"""The rules that keep the code readable and the algorithms pure, held by a test."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from coterie.catalogue import algorithm, algorithms
from coterie.transactions.catalogue import MODULES as SCHEMES
from coterie.transactions.catalogue import schemes

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "coterie"
MODULES = sorted(SOURCE.rglob("*.py"))
ALGORITHM_MODULES = [
    path
    for path in MODULES
    if path.relative_to(SOURCE).parts[0] in ("mutex", "election")
    and path.name != "trees.py"  # reads the topology that a user chose, maybe a seeded one
] + [
    path
    for path in (SOURCE / "transactions" / "schemes").rglob("*.py")
    if path.stem in SCHEMES or path.parent.name in SCHEMES
]
WORLDS = ("coterie.simulate", "coterie.explore")
KINDS = ("coterie.mutex", "coterie.election", "coterie.transactions", "coterie.cli")
IMPURE = (
    "asyncio",
    "datetime",
    "logging",
    "numpy",
    "os",
    "random",
    "socket",
    "threading",
    "time",
    "uuid",
)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_and_functions_fit_a_readers_head(path: Path) -> None:
    text = path.read_text()
    limit = 200 if path in ALGORITHM_MODULES else 400
    assert text.count("\n") <= limit
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 60, f"{node.name} is too long"


@pytest.mark.parametrize("path", ALGORITHM_MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_algorithms_do_no_input_or_output(path: Path) -> None:
    for name in imports(path):
        assert not within(name, IMPURE), f"{name} has no place in an algorithm"
        assert not within(name, (*WORLDS, "coterie.cli")), "algorithms know no world"


@pytest.mark.parametrize("package", ["simulate", "explore"])
def test_worlds_know_no_algorithm(package: str) -> None:
    for path in (SOURCE / package).rglob("*.py"):
        for name in imports(path):
            assert not within(name, KINDS), path


def test_importing_coterie_needs_msgspec_alone() -> None:
    for path in [SOURCE / "__init__.py", *SOURCE.glob("*.py"), *(SOURCE / "simulate").glob("*.py")]:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & {"numpy", "click", "rich"}, path


@pytest.mark.parametrize(
    "name",
    ["coterie", "coterie.simulate", "coterie.explore", "coterie.coteries", "coterie.diagram"],
)
def test_public_names_are_listed_sorted_and_there(name: str) -> None:
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(module.__all__)
    assert all(hasattr(module, public) for public in module.__all__)


@pytest.mark.parametrize("name", list(algorithms()))
def test_each_algorithm_has_its_tests_mutants_scenarios_and_page(name: str) -> None:
    kind = algorithm(name).process.__module__.split(".")[1]  # mutex or election
    tests = (ROOT / "tests" / kind / f"test_{name.replace('-', '_')}.py").read_text()
    assert "MUTANTS" in tests
    assert "transitions" in tests, "the exploration has pinned counts"
    assert len(list((ROOT / "tests" / "scenarios").glob(f"{name}-*.txt"))) >= 2
    page = (ROOT / "docs" / "algorithms" / f"{name}.md").read_text()
    headings = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert headings == [
        "Idea",
        "Text",
        "Assumes",
        "Costs",
        "Checked",
        "Breaks when",
        "Differs from the paper",
        "Reference",
    ]


@pytest.mark.parametrize("name", list(schemes()))
def test_each_scheme_has_its_tests_mutants_and_page(name: str) -> None:
    tests = "".join(
        path.read_text()
        for path in (ROOT / "tests" / "transactions").glob(f"test_{name.replace('-', '_')}*.py")
    )
    assert "MUTANTS" in tests
    assert "storm" in tests, "random transactions are judged by the checkers"
    page = (ROOT / "docs" / "transactions" / f"{name}.md").read_text()
    headings = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert headings == [
        "Idea",
        "Rules",
        "Waits and refusals",
        "Phantoms",
        "Checked",
        "Breaks when",
        "Differs from the survey",
        "Reference",
    ]
