"""The rules of the house, held by tests: what CONTRIBUTING.md says of the code is true of it."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.catalogue import algorithms, find
from coterie.transactions.catalogue import MODULES as SCHEMES
from coterie.transactions.catalogue import schemes
from docs.rooms import ROOMS, room_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "coterie"
MODULES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
FUNCTION_LINES_MAX = 50

ALGORITHM_MODULES = [
    path
    for path in MODULES
    if path.relative_to(SOURCE).parts[0] == "algorithms"
    and path.name != "trees.py"  # reads the topology that a user chose, maybe a seeded one
] + [
    path
    for path in (SOURCE / "transactions" / "schemes").rglob("*.py")
    if path.stem in SCHEMES or path.parent.name in SCHEMES
]
PROVED_PAGES = [path for path in MODULES if path.is_relative_to(SOURCE / "lab" / "prove" / "pages")]
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

# Rule 2: a class whose only subclass stands in its own package, each with its reason.
VARIANT = "a published variant beside the algorithm, which it differs from in one rule"
ONLY_SUBCLASSES = {
    "coterie.algorithms.election.bully.Bully": VARIANT,
    "coterie.algorithms.mutex.permission.centralized.coordinator.Centralized": VARIANT,
    "coterie.algorithms.mutex.permission.lamport.Lamport": VARIANT,
    "coterie.algorithms.mutex.quorum.fault_tolerant.process.FaultTolerant": VARIANT,
    "coterie.algorithms.mutex.quorum.maekawa.displaced.Deferred": VARIANT,
    "coterie.algorithms.mutex.quorum.maekawa.displaced.Displaced": VARIANT,
    "coterie.algorithms.mutex.token.suzuki_kasami.SuzukiKasami": VARIANT,
    "coterie.lab.prove.terms.Ordered": "a sort; those that pages derive stand in other packages",
    "coterie.lab.servers.child.ServerMissing": "its heir comes with the system, so its lack is no failure of tests",
    "coterie.lab.servers.valkey.ValkeySupplier": "its heir has a clock to be moved, which not every machine can give",
    "coterie.lab.simulate.workload.Poisson": "a hot spot is Poisson arrivals with weights",
    "coterie.lab.stack.workloads.election.Leaders": "a workload beside the same one with more kinds of faults",
    "coterie.lab.stack.workloads.mix_ups.Installations": "a workload beside the same one with an operator who forces",
    "coterie.locks.coordinator.Coordinator": "has a leader among its nodes only where these elect one",
    "coterie.transactions.schemes.multiversion.rules.Multiversion": VARIANT,
    "coterie.transactions.schemes.thomas_write_rule.rules.ThomasWriteRule": VARIANT,
    "coterie.locks.engine.Engine": "a contract; that of an election adds the leader",
}

# Rule 4: words that end like a gerund and are the literature's, or a variant's that users type.
NOT_GERUNDS = {
    "meeting",  # a noun: the value of which nodes have met
    "diffusing",
    "hashing",
    "overtaking",
    "regenerating",
    "rendezvous_hashing",
    "ring",
    "rotating",
    "timestamp_ordering",
    "token_ring",
    "two_phase_locking",
}

# Rule 4: class names that stand in several modules of the service, each with its reason. No name is added.
TO_RENAME = "two things: one of them gets a name of its own"
ON_A_PAGE = "a row of the dashboard, named by what it shows"
STATUS = "the command and the dashboard look at the same thing, each in its own way"
TWICE = {
    "Coordinator": "of locks, and the literature's of two-phase commit",
    "DeadlockSearch": "among locks and among transactions",
    "Event": ON_A_PAGE,
    "Guard": TO_RENAME,
    "Lock": ON_A_PAGE,
    "Log": "what a host writes to, and the file of a store",
    "Node": TO_RENAME,
    "Phase": TO_RENAME,
    "Program": TO_RENAME,
    "Record": "of a trace, of a site's log and of a store's history",
    "Snapshot": ON_A_PAGE,
    "Status": "of locks and nodes, and etcd's own message",
    "Visit": TO_RENAME,
}
# Not counted: the laboratory; the sync face, which has the names of the asyncio one; algorithms and schemes,
# each a text with the words of its paper; and what sites send each other.
WITH_OWN_WORDS = (
    "coterie.algorithms",
    "coterie.cli.lab",
    "coterie.lab",
    "coterie.sync",
    "coterie.transactions.schemes",
    "coterie.transactions.site.messages",
)

# Rule 5: the rooms of the cluster, from the ground up. `cluster` is its own modules: join, url, ...
FLOORS = (
    ("cluster.runtime",),
    ("cluster.wire",),
    ("cluster.membership",),
    ("cluster.classic", "cluster.client", "cluster.store", "cluster.voter"),
    ("cluster.admin", "cluster.change"),
    ("cluster",),
)

# What is simulated has its clocks, randomness, names and disks from `coterie.system` alone.
OF_THE_STACK = (
    "coterie.system.aio",
    "coterie.cluster",
    "coterie.algorithms.deadlock",
    "coterie.locks",
    "coterie.process",
    "coterie.sync",
    "coterie.telemetry",
    "coterie.transactions.site",
    "coterie.transactions.store",
)
SOURCES_OF_CHANCE = ("datetime", "fcntl", "random", "secrets", "uuid")
SYSTEM_CALLS = {
    "os.fdatasync",
    "os.fsync",
    "os.getpid",
    "os.urandom",
    "socket.gethostname",
    "time.clock_gettime",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.sleep",
    "time.time",
    "time.time_ns",
}

# Texts about processes, where words for people mislead.
TEXTS = [
    *(ROOT / "docs" / "algorithms").glob("*.md"),
    *(ROOT / "tests" / "scenarios").glob("*.txt"),
]
DIALECT = re.compile(
    r"\b(whoever|somebody|everybody|nobody|anybody|tell whether|for ever|anew)\b", re.IGNORECASE
)


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def show(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def where(path: Path, node: ast.stmt) -> str:
    return f"{show(path)}:{node.lineno}"


NAMES = {name_of(path): path for path in MODULES}


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def imported(node: ast.AST) -> Iterator[str]:
    """Name the modules that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            yield whole if whole in NAMES else node.module


def imports(path: Path) -> set[str]:
    """Name all modules that a module imports, those for type checking too."""
    return {name for node in ast.walk(TREES[path]) for name in imported(node)}


def imports_at_run_time(path: Path) -> set[str]:
    """Name the modules that a module imports when it runs."""
    found: set[str] = set()
    waiting: list[ast.AST] = [TREES[path]]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        found |= set(imported(node))
        waiting += ast.iter_child_nodes(node)
    return found


# Rule 1: functions fit a screen


def test_functions_fit_a_screen() -> None:
    long = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{where(path, node)}: {node.name} has {lines} lines")
    assert not long


# Rule 2: whole classes


def only_subclasses() -> dict[str, str]:
    """Find the classes with a single subclass in the package, where that is a neighbour."""
    homes: dict[str, Path] = {}
    heirs: dict[str, list[str]] = defaultdict(list)
    for path, tree in TREES.items():
        known = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in tree.body:
            if not isinstance(node, ast.ClassDef):
                continue
            name = f"{name_of(path)}.{node.name}"
            homes[name] = path.parent
            for base in node.bases:
                plain = base.value if isinstance(base, ast.Subscript) else base
                if isinstance(plain, ast.Name):
                    heirs[known.get(plain.id, f"{name_of(path)}.{plain.id}")].append(name)
    return {
        base: only[0]
        for base, only in heirs.items()
        if base in homes and len(only) == 1 and homes[base] == homes[only[0]]
    }


def test_no_class_is_torn_into_a_base_and_its_only_subclass() -> None:
    assert set(only_subclasses()) == set(ONLY_SUBCLASSES)


# Rule 3: objects are complete after `__init__`


def test_no_attribute_is_declared_now_and_filled_in_later() -> None:
    declared = [
        f"{where(path, node)}: {ast.unparse(node)}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Attribute)
        and node.value is None
    ]
    assert not declared


def test_no_callback_is_planted_into_another_object() -> None:
    planted = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if not isinstance(target, ast.Attribute):
                    continue
                if ast.unparse(target.value) in ("self", "cls"):
                    continue
                if isinstance(node.value, ast.Lambda) or target.attr.startswith("on_"):
                    planted.append(f"{where(path, node)}: {ast.unparse(node)}")
    assert not planted


# Rule 4: names that a newcomer guesses


def test_modules_are_named_by_nouns() -> None:
    gerunds = [show(path) for path in MODULES if path.stem.endswith("ing")]
    assert [name for name in gerunds if Path(name).stem not in NOT_GERUNDS] == []


def test_no_two_files_of_tests_have_one_name() -> None:
    """Pytest imports them by their names alone, and takes the second for the first."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_room_defines_a_class_twice() -> None:
    """Algorithms and pages of proofs may: each speaks of its own Request, Token and Process."""
    rooms: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and path not in (*ALGORITHM_MODULES, *PROVED_PAGES):
                rooms[path.parent, node.name].append(path.name)
    assert {key: files for key, files in rooms.items() if len(files) > 1} == {}


def test_outside_the_laboratory_a_class_name_stands_once() -> None:
    """The list gets shorter: a name that stands once again leaves it."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path, tree in TREES.items():
        if not within(name_of(path), WITH_OWN_WORDS):
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(show(path))
    found = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert {name: paths for name, paths in found.items() if name not in TWICE} == {}
    assert sorted(TWICE) == sorted(found), "a name that is listed stands once"


# Rule 5: the graph of rooms


def test_the_graph_of_rooms_is_as_pinned() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        here = room_of(name_of(path))
        for name in imports_at_run_time(path):
            if within(name, ("coterie",)) and room_of(name) != here:
                found[here].add(room_of(name))
    assert {room: " ".join(sorted(others)) for room, others in found.items()} == ROOMS


def test_rooms_of_the_cluster_import_those_below_alone() -> None:
    """Not at run time, not in a function and not for types: so each can be read before the next."""
    heights = {room: height for height, floor in enumerate(FLOORS) for room in floor}
    found = []
    for path in MODULES:
        here = room_of(name_of(path))
        if not within(here, ("cluster",)):
            continue
        for name in imports(path):
            there = room_of(name) if within(name, ("coterie.cluster",)) else here
            if there != here and heights[there] >= heights[here]:
                found.append(f"{show(path)}: {name}")
    assert not found


def test_wire_and_runtime_know_an_algorithm_only_by_the_frames_of_voters() -> None:
    rooms = ("coterie.cluster.runtime", "coterie.cluster.wire")
    found = {
        path.stem
        for path in MODULES
        if within(name_of(path), rooms)
        and any(within(name, ("coterie.algorithms",)) for name in imports(path))
    }
    assert found == {"query", "voter_frames"}


def test_nothing_but_its_commands_imports_the_laboratory() -> None:
    """Not at run time, not in a function and not for types: the service is half of the house."""
    wing = ("coterie.lab", "coterie.cli.lab")
    found = [
        f"{show(path)}: {name}"
        for path in MODULES
        if not within(name_of(path), wing)
        for name in imports(path)
        if within(name, wing)
    ]
    assert not found


def test_algorithms_do_no_input_or_output() -> None:
    impure = [
        f"{show(path)}: {name}"
        for path in ALGORITHM_MODULES
        for name in imports(path)
        if within(name, IMPURE)
    ]
    assert not impure


def test_the_rules_name_packages_that_are_there() -> None:
    """A rule about a package that has moved would look at nothing, and hold."""
    packages = {
        *OF_THE_STACK,
        *WITH_OWN_WORDS,
        *(f"coterie.{each}" for row in FLOORS for each in row),
    }
    assert [name for name in sorted(packages) if name not in NAMES] == []


def test_what_runs_in_the_simulated_stack_asks_one_module_for_its_system() -> None:
    asked = []
    for path, tree in TREES.items():
        if not within(name_of(path), OF_THE_STACK):
            continue
        names = imports_at_run_time(path)
        asked += [f"{show(path)}: {name}" for name in names if within(name, SOURCES_OF_CHANCE)]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("os", "time", "socket"):
                asked.append(f"{where(path, node)}: {ast.unparse(node)}")
            if isinstance(node, ast.Attribute) and ast.unparse(node) in SYSTEM_CALLS:
                asked.append(f"{show(path)}:{node.lineno}: {ast.unparse(node)}")
    assert not asked


def test_importing_coterie_needs_msgspec_alone() -> None:
    for path in [*SOURCE.glob("*.py"), *(SOURCE / "lab" / "simulate").rglob("*.py")]:
        for node in TREES[path].body:
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & {"numpy", "click"}, path


# One English


def test_the_source_speaks_plain_english() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*MODULES, *TEXTS]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if DIALECT.search(line)
    ]
    assert not found


# What is public, and when an algorithm or a scheme is done


@pytest.mark.parametrize(
    "name",
    [
        "coterie",
        "coterie.lab.simulate",
        "coterie.lab.explore",
        "coterie.coteries",
        "coterie.diagram",
    ],
)
def test_public_names_are_listed_sorted_and_there(name: str) -> None:
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(module.__all__)
    assert all(hasattr(module, public) for public in module.__all__)


@pytest.mark.parametrize("name", list(algorithms()))
def test_each_algorithm_has_its_tests_mutants_scenarios_and_page(name: str) -> None:
    kind = find(name).process.__module__.split(".")[2]  # mutex or election
    files = (ROOT / "tests" / "algorithms" / kind).glob(f"test_{name.replace('-', '_')}*.py")
    tests = "".join(path.read_text() for path in files)
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
