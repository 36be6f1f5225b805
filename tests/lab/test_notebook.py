"""What a notebook shows of results: pictures and tables, with nothing to install."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.algorithms.deadlock import Graph, all_of
from coterie.catalogue import find
from coterie.coteries import majority, parse_coterie
from coterie.lab.explore import check
from coterie.lab.notebook import live_run, register
from coterie.lab.scenario import perform
from coterie.lab.serializability.report import Report
from coterie.lab.simulate.compare import compare, compare_election
from coterie.trace import Header

if TYPE_CHECKING:
    from collections.abc import Callable


MEDIA = {"svg": "image/svg+xml", "html": "text/html"}


def shown(value: object, how: str = "svg") -> str:
    """Return what IPython shows: by a function that is registered for the class, or by its method."""
    kind = type(value)
    formatters = Formatters()
    register(formatters)
    method = getattr(kind, f"_repr_{how}_", None)
    show = formatters[MEDIA[how]].functions.get((kind.__module__, kind.__name__), method)
    assert show is not None
    text = show(value)
    assert isinstance(text, str)
    return text


class Formatters(dict[str, "Formatters"]):
    """Finds the function for a class as IPython's formatters do, by its module and name."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str], Callable[[Any], str | None]] = {}

    def __missing__(self, media: str) -> Formatters:
        return self.setdefault(media, Formatters())

    def for_type_by_name(
        self, type_module: str, type_name: str, func: Callable[[Any], str | None]
    ) -> None:
        self.functions[type_module, type_name] = func


def test_a_run_is_a_picture() -> None:
    performance = perform("ricart-agrawala 2\nacquire 1\nrun\n")
    assert "Request(1.1)" in shown(performance)
    assert shown(performance.trace) == shown(performance)


def test_a_wait_for_graph_is_a_picture() -> None:
    graph = Graph({"one": all_of("two"), "two": all_of("one")})
    assert "2 of 2 deadlocked" in shown(graph)


def test_a_history_is_a_picture() -> None:
    report = Report(True, (), ("T1", "T2"), "stated", 2, (), ())
    assert "T2" in shown(report)


def test_a_verdict_is_a_sentence_and_the_counterexample() -> None:
    entry = find("maekawa")
    processes = entry.build(entry.setup(3, "basic"))
    assert "<svg" in shown(check(processes), "html")  # it does not say which algorithm this is
    header = Header(algorithm="maekawa", size=3, variant="basic")
    text = shown(check(processes, header=header), "html")
    assert "<strong>violated</strong>: deadlock: no message or timer is pending" in text
    assert '<iframe sandbox="allow-scripts" title="maekawa 3 variant=basic" srcdoc="' in text
    assert len(text) < 300_000
    assert "<iframe" not in shown(check(entry.build(entry.setup(2))), "html")


def test_a_short_run_is_live_and_a_long_one_a_picture() -> None:
    performance = perform("ricart-agrawala 2\nacquire 1\nrun\n")
    assert shown(performance, "html").startswith("<iframe")
    assert shown(performance.trace, "html") == shown(performance, "html")
    again = "acquire 1\nrun\nrelease 1\nrun\n" * 12
    assert live_run(perform(f"ricart-agrawala 2\n{again}").trace) is None


def test_a_coterie_is_a_table_unless_it_is_large() -> None:
    text = shown(parse_coterie("1,2 2,3 1,3", 3), "html")
    assert text.count("<tr>") == 4
    assert text.count("●") == 6
    assert majority(range(1, 16))._repr_html_() is None


def test_a_comparison_is_a_table() -> None:
    entry = find("centralized")
    text = shown(compare(entry, entry.setup(3)), "html")
    assert "<td>messages per entry, saturated</td>" in text
    assert "<td>yes</td>" in text
    bully = find("bully")
    assert "all notice" in shown(compare_election(bully, bully.setup(3)), "html")
