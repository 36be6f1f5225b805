"""Algorithms of a user's own: found by a reference, run in all worlds, and each mistake named."""

from __future__ import annotations

import ast
import codecs
import contextlib
import io
import json
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import coterie as coterie_package
from coterie.catalogue import every_algorithm, find, load, source_of
from coterie.catalogue.loader import installed, read
from coterie.cli import run
from coterie.errors import UsageError
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.scenario import perform
from coterie.lab.scenario.replay import replay
from coterie.lab.simulate import TrialBuilder
from coterie.lab.simulate.compare import compare
from coterie.lab.simulate.compare.sweep import Contender
from coterie.lab.simulate.monitors import ViolationError
from coterie.trace import parse_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parent.parent / "examples"
NAIVE = f"{EXAMPLES / 'naive.py'}:Naive"
ORDERED = f"{EXAMPLES / 'ordered.py'}"

OWN = """from coterie.process import *
class Ask(Payload, frozen=True): ...
class Own(Mutex):
    size: int
    votes: FIELD
    def acquire(self, out):
        ACQUIRE
    def release(self, out):
        pass
    def receive(self, sender, message, out):
        RECEIVE
"""


def own(field: str = "int = 0", acquire: str = "out.tell(Entered())", receive: str = "pass") -> str:
    return OWN.replace("FIELD", field).replace("ACQUIRE", acquire).replace("RECEIVE", receive)


class Mistake(NamedTuple):
    source: str
    words: str  # of the one line that answers it
    status: int = 64
    reference: str = "own.py:Own"


MISTAKES = {
    "no file": Mistake("", "no such file: missing.py", reference="missing.py:Own"),
    "no class": Mistake(own(), "own.py has no Nope; it has Own", reference="own.py:Nope"),
    "no algorithm": Mistake("x = 1", "has no class derived from Mutex", reference="own.py"),
    "several": Mistake(
        own() + "class Other(Own): ...\n", "choose own.py:Other or another", reference="own.py"
    ),
    "no module": Mistake("", "no module named 'nothere'", reference="nothere.deep:Own"),
    "syntax": Mistake("x = 1\nclass Own(:\n", "own.py, line 2: invalid syntax"),
    "missing import": Mistake("import nothere", "own.py, line 1: ModuleNotFoundError"),
    "raises on import": Mistake("x = 1\ny = x / 0", "own.py, line 2: ZeroDivisionError"),
    "exits": Mistake("import sys\nsys.exit(3)", "line 2: it exits when it is imported"),
    "not a process": Mistake(
        "class Own: ...", "Own is no algorithm; derive it from Mutex or Election of coterie.process"
    ),
    "no class but a value": Mistake("Own = 3", "is 3, neither a class nor an Algorithm"),
    "a process alone": Mistake(
        "from coterie.process import Process\nclass Own(Process): ...", "derives from Process alone"
    ),
    "inputs without a handler": Mistake(
        "from coterie.process import Process\nclass Own(Process):\n    size: int\n    inputs = ('go',)",
        "Own is abstract: define go",
    ),
    "inputs as a field": Mistake(
        own("int = 0\n    inputs: tuple = ('go',)"),
        "the field inputs of Own hides what classes say: annotate it as a ClassVar",
    ),
    "abstract": Mistake(
        own().replace("def release", "def relase"), "Own is abstract: define release"
    ),
    "init": Mistake(own() + "    def __init__(self): ...", "cannot define __init__"),
    "no size": Mistake(
        own().replace("    size: int\n", ""),
        "Own has no field size: add `size: int`, the number of processes",
    ),
    "no default": Mistake(
        own("int"), "the field votes of Own needs a default: only me and size are given"
    ),
    "unknown type": Mistake(
        "from __future__ import annotations\n" + own("Nothing = 0"), "'Nothing' is not defined"
    ),
    "int keys": Mistake(
        own("dict[int, int] = {}"), "the field votes of Own is a dict whose keys are not str"
    ),
    "nested int keys": Mistake(own("list[dict[int, int]] = []"), "a dict whose keys are not str"),
    "unseen int keys": Mistake(
        own("dict = {}", "self.votes[2] = 1"), "votes of Own cannot hold {2: 1}: the keys"
    ),
    "a class that cannot be saved": Mistake(
        "class Thing: ...\n" + own("Thing | None = None"), "votes of Own is of the class Thing"
    ),
    "a value that cannot be saved": Mistake(
        own("list = []", "self.votes.append(print)"), "votes of Own cannot hold"
    ),
    "not as declared": Mistake(
        own(acquire="self.votes = 'many'"),
        "the field votes of Own cannot hold 'many': expected `int`, got `str`",
    ),
    "a message with int keys": Mistake(
        own(acquire="out.send(3 - self.me, Tell({1: 2}))").replace(
            "class Own", "class Tell(Payload, frozen=True):\n    what: dict\nclass Own"
        ),
        "the field what of Tell cannot hold {1: 2}",
    ),
    "unknown receiver": Mistake(
        own(acquire="out.send(self.me + 1, Ask())"),
        "sent Ask() to process 3, which does not exist: they are 1 to 2",
        1,
    ),
    "receiver 0": Mistake(
        own(acquire="out.send(self.me - 1, Ask())"), "sent Ask() to process 0, which does not", 1
    ),
    "unknown process watched": Mistake(
        own(acquire="out.watch(0)"), "watched process 0, which does not exist", 1
    ),
    "no message": Mistake(
        own(acquire="out.send(3 - self.me, 'ask')"), "sent 'ask', which is no message", 1
    ),
    "a class as message": Mistake(
        own(acquire="out.send(3 - self.me, Ask)"),
        "sent the class Ask, which is no message: send a value of a class derived from Payload",
        1,
    ),
    "a class as event": Mistake(own(acquire="out.tell(Entered)"), "the class Entered was told", 1),
    "entered twice": Mistake(
        own(acquire="out.tell(Entered()); out.tell(Entered())"),
        "Entered was told to a user that is not waiting but inside: tell it once for each acquire",
        1,
    ),
    "entered unasked": Mistake(
        own(acquire="out.send(3 - self.me, Ask())", receive="out.tell(Entered())"),
        "Entered was told to a user that is not waiting but idle",
        1,
    ),
    "to itself": Mistake(
        own(acquire="out.send(self.me, Ask())", receive="out.send(self.me, Ask())"),
        "process 1 keeps sending to itself",
        1,
    ),
    "handler raises": Mistake(
        own(acquire="out.send(3 - self.me, Ask())", receive="self.nothing"),
        "raised AttributeError: 'Own' object has no attribute 'nothing' (own.py, line 11)",
        1,
    ),
    "start raises": Mistake(
        own() + "    def start(self, out):\n        1 / 0", "division by zero (own.py, line 13)", 1
    ),
    "no receive": Mistake(
        own(acquire="out.send(3 - self.me, Ask())").replace("def receive", "def receved"),
        "process 2 takes no messages, but got Ask() from 1",
        1,
    ),
}

MAKE_THEM = """
import contextlib, io, json, os, sys
from coterie.cli import run
answers = {}
for name, (source, _, _, reference) in json.load(sys.stdin).items():
    os.makedirs(name)
    with contextlib.chdir(name):
        with open("own.py", "w") as file:
            file.write(source)
        for verb in "check", "simulate":
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = run([verb, reference, "-N", "2"])
            answers[f"{verb} {name}"] = status, said.getvalue()
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module", params=["", "-O"])
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[int, str]]:
    """Make all mistakes, in a Python that has assertions and in one that has none."""
    flags = [request.param] if request.param else []
    ran = subprocess.run(
        [sys.executable, *flags, "-c", MAKE_THEM],
        input=json.dumps(MISTAKES),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=tmp_path_factory.mktemp("mistakes"),
    )
    found: dict[str, tuple[int, str]] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_by_one_line(name: str, answers: dict[str, tuple[int, str]]) -> None:
    mistake = MISTAKES[name]
    status, said = answers[f"check {name}"]
    (line,) = [line for line in said.splitlines() if mistake.words in line and "!" not in line]
    assert line.startswith("coterie: " if mistake.status == 64 else f"{mistake.reference}, N = 2: ")
    assert status == mistake.status
    assert "Traceback" not in said


@pytest.mark.parametrize("name", MISTAKES)
def test_a_simulation_fails_with_a_mistake_too(
    name: str, answers: dict[str, tuple[int, str]]
) -> None:
    """It saves no states, so that what cannot be saved is noticed only if it is declared."""
    status, said = answers[f"simulate {name}"]
    assert status in (1, MISTAKES[name].status)
    assert "Traceback" not in said


class Said(NamedTuple):
    status: int
    stdout: str
    stderr: str


def coterie(*arguments: str) -> Said:
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        status = run(list(arguments))
    return Said(status, stdout.getvalue(), stderr.getvalue())


# The examples: one is wrong, one is right


def test_the_wrong_example_is_refuted_by_a_readable_counterexample() -> None:
    said = coterie("check", NAIVE, "-N", "2")
    assert said.status == 1
    assert said.stdout.startswith(f"{NAIVE}, N = 2: violated. More than one is inside")
    told, states = said.stdout.partition("counterexample:\n")[2].split("  states at its end:\n")
    assert states.splitlines()[0] == "    1: inside True, awaiting [], deferred []"
    transcript = told.replace("\n    ", "\n").strip()
    assert transcript.splitlines()[:2] == [f"{NAIVE} 2", "acquire 2"]
    assert "  1 > 2  Reply" in transcript
    assert perform(transcript).transcript.strip() == transcript


def test_the_right_example_is_verified_for_any_number_of_entries() -> None:
    said = coterie("check", ORDERED, "-N", "3", "--entries", "any", "--canonical")
    assert (said.status, "verified" in said.stdout) == (0, True)


def test_a_simulation_notices_two_inside_without_being_told_how_long_they_stay() -> None:
    plan = ["-N", "2", "--entries", "1", "--latency", "exponential:1", "--seed", "1"]
    said = coterie("simulate", NAIVE, *plan)
    assert said.status == 1
    assert "are in the critical section at once" in said.stdout
    assert coterie("simulate", NAIVE, *plan, "--hold", "0").status == 0


def test_a_variant_that_is_known_to_fail_stays_inside_as_well() -> None:
    """The weak rule of the survey lets two in only if the first one stays."""
    plan = ["simulate", "suzuki-kasami", "--variant", "survey", "-N", "3"]
    assert coterie(*plan).stdout == coterie(*plan, "--hold", "1").stdout
    assert coterie(*plan).stdout != coterie(*plan, "--hold", "0").stdout


def test_a_file_that_has_changed_is_imported_again(tmp_path: Path) -> None:
    file = tmp_path / "changing.py"
    file.write_text(own())
    first = load(str(file))
    assert load(str(file)) is first
    file.write_text(own("int = 3"))
    assert load(str(file)).process is not first.process


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "marked.py"
    path.write_bytes(codecs.BOM_UTF8 + b"# nothing\n")
    assert read(path) == "# nothing\n"


def test_the_catalogue_is_measured_with_entries_that_take_no_time() -> None:
    assert (
        coterie("simulate", "maekawa").stdout
        == coterie("simulate", "maekawa", "--hold", "0").stdout
    )


def test_costs_are_measured_where_none_are_stated() -> None:
    said = coterie("compare", ORDERED, "-N", "3")
    assert said.status == 0
    row = next(line.split() for line in said.stdout.splitlines() if line.startswith(ORDERED))
    assert row[1:] == ["3", "4", "-", "4", "-", "4", "-", "2", "-", "1", "-", "-"]


def test_what_does_not_work_has_no_costs() -> None:
    said = coterie("compare", NAIVE, "-N", "3")
    assert said.status == 1
    assert "has no costs, since it does not work: processes 3 and 1 are in" in said.stderr
    entry = load(NAIVE)
    with pytest.raises(ViolationError, match="critical section at once") as caught:
        compare(entry, entry.setup(3))
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - ours, as from a worker
    assert (again.name, str(again)) == ("safety", str(caught.value))


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_a_trace_replays_and_is_played_on_by_hand(command: str, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    assert coterie(command, NAIVE, "-N", "3", "--trace", str(file)).status == 1
    trace = parse_trace(file.read_text())
    assert trace.header.algorithm == NAIVE
    replay(trace)
    assert coterie(command, NAIVE, "-N", "3", "--trace", str(tmp_path / "run.html")).status == 1
    assert "Naive" in (tmp_path / "run.html").read_text()


@pytest.mark.slow
def test_worker_processes_find_it() -> None:
    said = coterie("simulate", NAIVE, "--seeds", "4", "--jobs", "2")
    assert said.status == 1
    assert "4, 4 of them failed" in said.stdout


@pytest.mark.slow
def test_a_worker_that_has_not_the_file_is_given_its_text(tmp_path: Path) -> None:
    file = tmp_path / "gone.py"
    file.write_text(own())
    name = f"{file}:Own"
    draw = TrialBuilder(algorithm=name, size=2, entries=1, max_time=9.0, source=source_of(name))
    file.unlink()
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        assert executor.submit(kind_of, pickle.dumps(draw)).result() == "Own"


def kind_of(draw: bytes) -> str:
    planned: TrialBuilder = pickle.loads(draw)  # noqa: S301 - ours
    return type(planned(0).processes[0]).__name__


# Other ways to name one


ALGORITHM = f"""
from coterie.catalogue import Algorithm, Costs, Parameter, Variant, exactly
{own()}
    extra: int = 0
COST = lambda setup: exactly(setup.size, "N")
ALGORITHM = Algorithm(
    name="mine", family="own", summary="Mine.", citation="", process=Own,
    build=lambda setup: [
        Own(me, setup.size, extra=setup.parameters["extra"]) for me in range(1, setup.size + 1)
    ],
    costs=Costs(COST, COST, COST, COST, COST), assumes=(), tolerates=(), causal=False,
    variants=(Variant("first", "One."), Variant("second", "Another.")),
    parameters=(Parameter("extra", "7", "how much more", lambda text, size: int(text)),),
)
"""


def test_an_algorithm_value_has_variants_and_options_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ALGORITHM)
    assert coterie("simulate", str(file), "-N", "1", "--extra", "5").status == 0
    assert "extra" in coterie("check", str(file), "-N", "1", "--extras", "5").stderr
    said = coterie("check", f"{file}:ALGORITHM", "--help").stdout
    assert "--extra SPEC    How much more.  [default: 7]" in said
    assert "One of first (default), second." in said
    assert load(str(file)).setup(1, None, {"extra": "5"}).parameters == {"extra": 5}


def test_a_module_of_this_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "deep.py").write_text(own())
    monkeypatch.chdir(tmp_path)
    assert load("own_package.deep:Own").process.__module__ == "own_package.deep"
    assert str(tmp_path) not in sys.path


def test_a_file_imports_its_neighbours_and_may_be_named_like_a_module(tmp_path: Path) -> None:
    (tmp_path / "own_neighbour.py").write_text("EXTRA = 3")
    file = tmp_path / "queue.py"
    file.write_text("from own_neighbour import EXTRA\n" + own("int = EXTRA"))
    assert load(str(file)).build(load(str(file)).setup(1))[0].me == 1
    assert "own" not in vars(sys.modules["queue"])


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package that offers three algorithms, one of them broken and one under our name."""
    (tmp_path / "own_installed.py").write_text(own())
    about = tmp_path / "own_installed-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-installed\nVersion: 1\n")
    points = ["own-installed = own_installed:Own", "own-broken = own_installed:Nope"]
    points += ["maekawa = own_installed:Own"]
    (about / "entry_points.txt").write_text("\n".join(["[coterie.algorithms]", *points]))
    monkeypatch.syspath_prepend(tmp_path)
    installed.cache_clear()
    yield
    installed.cache_clear()


@pytest.mark.usefixtures("packages")
def test_installed_packages_offer_algorithms_by_name() -> None:
    assert find("own-installed").process.__name__ == "Own"
    assert find("maekawa").process.__name__ == "Maekawa"
    assert "own-installed" in every_algorithm()
    with pytest.raises(UsageError, match=r"own_installed:Nope, which is installed as 'own-broken'"):
        find("own-broken")
    with pytest.raises(UsageError, match="did you mean 'own-installed'"):
        find("own-instaled")
    said = coterie("algorithms")
    row = next(line.split() for line in said.stdout.splitlines() if "own-installed" in line)
    assert row == ["own-installed", "own", "-", "-", "-", "unordered", "-", "-"]
    assert "own-broken" in said.stderr
    assert coterie("simulate", "own-installed", "-N", "1").status == 0


# What is named elsewhere is not run


def test_a_scenario_or_a_plan_runs_no_file(tmp_path: Path) -> None:
    file = tmp_path / "ran.py"
    file.write_text("raise SystemExit")
    for refused in (f"{file}:Own", "nothere:Own"):
        with pytest.raises(UsageError, match="is not loaded"):
            perform(f"{refused} 3")
        with pytest.raises(UsageError, match="is not loaded"):
            TrialBuilder(algorithm=refused, size=3)(0)
        with pytest.raises(UsageError, match="is not loaded"):
            Contender(refused, 3).find()


def test_a_module_is_found_by_a_worker_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_planned.py").write_text(own())
    monkeypatch.chdir(tmp_path)
    name = "own_planned:Own"
    assert len(TrialBuilder(algorithm=name, size=3, source=source_of(name))(0).processes) == 3


def test_an_address_plays_what_was_loaded_and_nothing_else() -> None:
    load(NAIVE)
    laboratory = Laboratory()
    laboratory.play_whole(Question(f"{NAIVE} 3", ["acquire 1"]))
    with pytest.raises(Refusal):
        laboratory.play(Question(f"{NAIVE}X 3", ["acquire 1"]))
    entry = next(each for each in laboratory.catalogue() if each.name == NAIVE)
    assert entry.calls == ["acquire", "release"]


@pytest.mark.parametrize("name", ["unseen int keys", "not as declared", "a message with int keys"])
def test_the_laboratory_refuses_a_state_that_cannot_be_saved(name: str, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(MISTAKES[name].source)
    load(str(file))
    with pytest.raises(UsageError) as refused:
        Laboratory().fates(Question(f"{file} 2", ["acquire 1"]))
    assert MISTAKES[name].words in str(refused.value)


def test_help_has_the_options_of_the_command_first_and_then_those_of_each_algorithm() -> None:
    said = coterie("check", "--help").stdout
    ours, *others = said.split("\n\nOptions")
    assert "FILE.py:Class" in ours
    assert "--crashes" in others[0]
    assert "--coterie" not in others[0]
    maekawa = next(part for part in others if part.startswith(" of maekawa:"))
    assert "--coterie SPEC" in maekawa
    assert "eager (default), displaced" in maekawa


def test_a_cluster_runs_no_file(tmp_path: Path) -> None:
    file = tmp_path / "coterie.toml"
    file.write_text(f'algorithm = "{NAIVE}"\n[nodes.a]\naddress = "localhost:7420"\n')
    said = coterie("serve", "--config", str(file), "--node", "a")
    assert said.status in (64, 78)
    assert "is not loaded" in said.stderr


def test_a_trace_of_ones_own_algorithm_is_played_if_that_is_named_again(tmp_path: Path) -> None:
    file = tmp_path / "run.txt"
    file.write_text(f"{NAIVE} 3\nacquire 1\n")
    said = coterie("lab", str(file), "--no-open")
    assert (said.status, f"add --algorithm {NAIVE} to run it" in said.stderr) == (64, True)


def test_an_election_of_ones_own_is_checked_and_measured(tmp_path: Path) -> None:
    """The highest process is told to all by itself: right while it lives, so it is no election."""
    file = tmp_path / "highest.py"
    file.write_text(
        "from coterie.process import *\n"
        "class Highest(Election):\n"
        "    size: int\n"
        "    def start(self, out):\n"
        "        out.tell(Elected(self.size))\n"
        "    def elect(self, out):\n"
        "        out.tell(Elected(self.size))\n"
    )
    assert coterie("check", str(file), "-N", "2").status == 0
    assert coterie("check", str(file), "-N", "2", "--crashes", "1").status == 1
    assert coterie("simulate", str(file), "-N", "3").status == 0


def test_what_strangers_talk_to_cannot_load() -> None:
    """Pages, scenarios and clusters look algorithms up, and import none by a reference."""
    source = Path(coterie_package.__file__).parent
    for room in ("cluster", "dashboard", "lab/play", "lab/scenario", "lab/stack", "lab/web"):
        paths = list((source / room).rglob("*.py"))
        assert paths, room
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module == "coterie.catalogue":
                    names = {alias.name for alias in node.names}
                    assert not names & {"load", "loader", "lookup", "source_of"}, path
                if isinstance(node, ast.ImportFrom):
                    inner = ("coterie.catalogue.loader", "coterie.catalogue.lookup")
                    assert node.module not in inner, path
