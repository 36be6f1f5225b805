"""Every page is proved, says nothing vacuous, and is followed by the code; and every proof can fail.

`left_out.txt` names, for each clause and axiom that is no promise, what is lost without it: how many
things of each sort suffice, the step, and the clause. `REWRITE=1 pytest` looks for what is not there
yet; for all of them that takes some minutes.
"""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from coterie.catalogue import algorithms, find
from coterie.lab.prove import library
from coterie.lab.prove.bounded import Bounded, find_run, impossible
from coterie.lab.prove.link import Trial
from coterie.lab.prove.proof import decide, prove, questions
from coterie.lab.prove.theory import Theory
from coterie.lab.prove.verdict import hold_all
from coterie.lab.prove.wait_proof import ENDS, WaitReader, prove_waits

if TYPE_CHECKING:
    from coterie.lab.prove.page import Page
    from coterie.lab.prove.proof import Question
    from coterie.lab.prove.wait_proof import WaitQuestion

LEFT_OUT = Path(__file__).parent / "left_out.txt"
DOCS = Path(__file__).parents[3] / "docs"
WAIT = "a wait"  # in place of the size: the clause is there for the end of waits alone
OWN = [name for name in library.names() if name not in library.SAME_CODE]
LINKED = [name for name in library.names() if library.find(name).link is not None]
ALL = algorithms()  # of the catalogue
FLAWS = [(name, flaw) for name in OWN for flaw in library.find(name).page.flawed]


class Loss(NamedTuple):
    """What is lost without a clause or an axiom."""

    page: str
    item: str
    size: str
    step: str
    clause: str


def page_of(name: str) -> Page:
    return library.find(name).page


@functools.cache
def bounded(name: str, size: int) -> Bounded:
    return Bounded(page_of(name), size)


def question_of(page: Page, step: str, clause: str) -> Question:
    asked = [q for q in questions(page) if (q.place, q.clause.name) == (step, clause)]
    assert len(asked) == 1, f"{page.name} has no obligation {step}, {clause}"
    return asked[0]


def wait_question(page: Page, step: str, claim: str) -> WaitQuestion:
    assert page.waits is not None
    reader = WaitReader(page, page.waits, Theory(page, 2))
    return next(q for q in reader.questions() if (q.place, q.claim) == (step, claim))


def look_for_a_loss(name: str, item: str) -> Loss:
    """Find what is lost without a clause, by the solver, and a small state that shows it."""
    page = page_of(name)
    for size in (2, 3):
        for failed in prove(page.without(item)).failed:
            question = question_of(page, failed.question.place, failed.question.clause.name)
            if bounded(name, size).refute(question, without=item):
                return Loss(name, item, str(size), question.place, question.clause.name)
    without = page.without(item)
    assert without.waits is not None, f"{name}: {item} is not needed"
    reader = WaitReader(without, without.waits, Theory(without, 2))
    for step, claim, wrong in reader.questions():
        if decide(wrong()) == "fails":
            return Loss(name, item, WAIT, step, claim)
    raise AssertionError(f"{name}: {item} is not needed")


def losses() -> list[Loss]:
    lines = LEFT_OUT.read_text(encoding="utf-8").splitlines() if LEFT_OUT.exists() else []
    return [Loss(*line.split(" | ")) for line in lines]


@pytest.mark.parametrize("name", OWN)
def test_the_page_is_proved(name: str) -> None:
    proof = prove(page_of(name))
    assert [(each.question.place, each.question.clause.name) for each in proof.failed] == []


@pytest.mark.parametrize("name", OWN)
def test_every_step_is_possible_in_some_state_of_the_invariant(name: str) -> None:
    assert impossible(page_of(name)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LINKED if name in OWN])
def test_the_code_follows_the_page(name: str) -> None:
    entry = library.find(name)
    held = hold_all(entry)
    assert [each.trouble for each in held if each.trouble] == []
    used = set().union(*(each.used for each in held))
    assert used == {action.name for action in entry.page.actions}, "every step was seen"


@pytest.mark.parametrize("name", library.SAME_CODE)
def test_the_same_code_over_another_coterie_follows_the_page(name: str) -> None:
    entry = library.find(name)
    held = hold_all(entry, [Trial(4, 2, runs=2)])
    assert [each.trouble for each in held if each.trouble] == []
    assert entry.algorithm == name


def test_each_clause_and_axiom_is_left_out_in_turn() -> None:
    needed = [
        (name, item.name)
        for name in OWN
        for item in (*page_of(name).axioms, *page_of(name).clauses)
        if not item.promised
    ]
    if os.environ.get("REWRITE"):
        known = {(loss.page, loss.item): loss for loss in losses()}
        found = [known.get(each) or look_for_a_loss(*each) for each in needed]
        LEFT_OUT.write_text("".join(" | ".join(loss) + "\n" for loss in found), encoding="utf-8")
    assert [(loss.page, loss.item) for loss in losses()] == needed


@pytest.mark.parametrize("loss", losses(), ids=lambda loss: f"{loss.page}-{loss.item}")
def test_without_it_something_is_lost(loss: Loss) -> None:
    page = page_of(loss.page)
    if loss.size == WAIT:
        asked = wait_question(page.without(loss.item), loss.step, loss.clause)
        assert decide(asked.wrong()) == "fails"
        return
    question = question_of(page, loss.step, loss.clause)
    found = bounded(loss.page, int(loss.size)).refute(question, without=loss.item)
    assert found is not None


# What a flawed page loses first, and what a short run from the start breaks, if one does.
LOST = {
    ("bully", "wins-without-waiting"): (
        "no_process_that_lives_is_higher_than_a_leader",
        "no_process_that_lives_is_higher_than_a_leader",
    ),
    ("centralized", "serves-while-one-is-inside"): ("one_holder", "mutual_exclusion"),
    ("lamport", "queues-without-a-clock"): ("none_tells_a_time_to_come", None),
    ("conservative", "does-what-it-has-not-declared"): (
        "reads_are_those_of_the_serial_order",
        "reads_are_those_of_the_serial_order",
    ),
    ("conservative", "waits-for-what-has-begun-alone"): (
        "a_read_has_waited_for_writers",
        "reads_are_those_of_the_serial_order",
    ),
    ("decentralized", "enters-with-any-votes"): ("mutual_exclusion", "mutual_exclusion"),
    ("decentralized", "keeps-votes-that-it-gives-back"): ("a_vote_under_way_was_given", None),
    ("denied", "does-without-one-whose-reply-comes"): ("no_handler_raises", "no_handler_raises"),
    ("denied", "does-without-the-slow"): ("those_that_are_gone_are_down", "mutual_exclusion"),
    ("fault-tolerant", "half-a-quarantine"): ("mutual_exclusion", None),
    ("fault-tolerant", "no-relay"): ("news_reaches_all", None),
    ("fault-tolerant", "published"): ("one_that_lost_a_member_holds", None),
    ("leased", "keeps-what-it-gives-back"): ("mutual_exclusion", None),
    ("leased", "lease-from-arrival"): ("a_lease_follows_what_was_heard", None),
    ("leased", "shares-with-one-that-is-alone"): ("one_owner", None),
    ("leased", "votes-at-once-after-a-start"): ("an_owner_came_after_abstention", None),
    ("leased-change", "no-joint-step"): ("numbers_in_use_meet", None),
    ("leased-change", "reports-while-it-abstains"): ("what_is_reported_is_counted_no_more", None),
    ("leased-change", "reports-while-it-serves"): ("what_is_closed_stays_closed", None),
    ("leased-tokens", "enters-by-a-repair"): (
        "earlier_votes_are_over",
        "the_order_of_tokens_is_the_order_of_votes",
    ),
    ("leased-tokens", "forgets-the-floor"): (
        "what_is_over_is_below_the_floor",
        "the_order_of_tokens_is_the_order_of_votes",
    ),
    ("leased-tokens", "leaves-the-floor"): (
        "what_is_over_is_below_the_floor",
        "the_order_of_tokens_is_the_order_of_votes",
    ),
    ("leased-tokens", "sends-before-it-saves"): (
        "the_disk_covers_what_was_handed_out",
        "the_order_of_tokens_is_the_order_of_votes",
    ),
    ("maekawa", "basic"): ("no_deadlock", None),
    ("maekawa", "forgets-an-early-inquiry"): ("an_inquiry_is_not_lost", None),
    ("maekawa", "gives-back-inside"): ("an_inquiry_is_not_lost", None),
    ("maekawa", "keeps-the-lock-that-it-gives-back"): ("a_lock_has_one_place", None),
    ("multiversion", "writes-though-it-was-read-past"): (
        "reads_are_those_of_the_serial_order",
        "reads_are_those_of_the_serial_order",
    ),
    ("observed-lease", "buries-without-comparing"): ("a_valid_hold_is_on_the_server", None),
    ("observed-lease", "lease-from-arrival"): (
        "a_lease_follows_the_counter",
        "a_valid_hold_is_on_the_server",
    ),
    ("optimistic", "commits-without-validation"): (
        "reads_are_those_of_the_order_of_commits",
        "reads_are_those_of_the_order_of_commits",
    ),
    ("timestamp-ordering", "drops-writes-that-were-read-past"): (
        "reads_are_those_of_the_serial_order",
        "reads_are_those_of_the_serial_order",
    ),
    ("timestamp-ordering", "forgets-reads"): (
        "reads_are_known",
        "reads_are_those_of_the_serial_order",
    ),
    ("two-phase-locking", "unlocks-before-it-closes"): (
        "one_that_reads_has_a_lock",
        "conflicts_follow_the_order_of_closing",
    ),
    ("naimi-trehel", "stays-root"): ("a_successor_waits", "no_handler_raises"),
    ("raymond", "asks-twice"): ("no_handler_raises", "no_handler_raises"),
    ("ricart-agrawala", "forgets-the-time-of-a-request"): (
        "a_permission_counts",
        "mutual_exclusion",
    ),
    ("ring", "closes-before-it-is-back"): (
        "a_list_was_sent_before_it_came_back",
        "no_process_that_lives_is_higher_than_a_leader",
    ),
    ("ring", "skips-one-that-lives"): (
        "behind_a_list_are_members_and_the_dead",
        "no_process_that_lives_is_higher_than_a_leader",
    ),
    ("roucairol-carvalho", "replies-inside"): ("a_permission_has_one_place", None),
    ("suzuki-kasami", "survey"): ("a_request_is_not_lost", "no_deadlock"),
    ("token-ring", "passes-on-inside"): ("inside_with_the_token", "mutual_exclusion"),
    ("values", "acknowledges-by-one-voter"): ("acknowledged_by_a_quorum", None),
    ("values", "begins-with-any-report"): ("a_base_is_no_older_than_its_reports", None),
    ("values", "takes-writes-after-the-tenure"): ("a_vote_reports_all_that_was_taken_before", None),
    ("two-phase-commit", "aborts-on-a-timeout"): ("atomicity", "atomicity"),
    ("two-phase-commit", "decides-by-one-vote"): ("decided_by_all", "atomicity"),
    ("two-phase-commit", "votes-before-it-saves"): ("a_vote_binds", "atomicity"),
    ("two-phase-commit", "votes-in-another-life"): ("a_prepared_site_aborts_by_decision", None),
}


@pytest.mark.parametrize(("name", "flaw"), FLAWS)
def test_a_flawed_page_loses_its_proof_and_names_the_clause(name: str, flaw: str) -> None:
    page = page_of(name).flawed[flaw]
    clause, broken = LOST[name, flaw]
    asked = [question for question in questions(page) if question.clause.name == clause]
    assert any(Bounded(page, size).refute(each) for size in (2, 3) for each in asked)
    if broken is not None:
        small = find_run(page, depth=8)
        run = small if small.broken is not None else find_run(page, size=3, depth=6)
        assert run.broken is not None
        assert run.broken.name == broken


@pytest.mark.parametrize("name", [n for n in OWN if library.find(n).algorithm in ALL])
def test_every_unsound_variant_of_the_catalogue_has_a_flawed_page(name: str) -> None:
    entry = library.find(name)
    variants = find(entry.algorithm).variants
    # Rules that this page is not about, and one that waits forever and is safe.
    own_code = {"bully": {"as-told"}, "ring": {"as-told"}, "maekawa": {"survey", "deferred"}}.get(
        name, set()
    )
    unsound = {variant.name for variant in variants if not variant.sound} - own_code
    assert unsound <= entry.page.flawed.keys()


def test_every_wait_of_ricart_agrawala_ends() -> None:
    page = page_of("ricart-agrawala")
    assert page.waits is not None
    found = prove_waits(page, page.waits)
    assert [each for each in found if each.result != "proved"] == []
    assert found[-1].place == ENDS


@pytest.mark.parametrize("number", range(4))
def test_every_help_of_ricart_agrawala_is_needed(number: int) -> None:
    page = page_of("ricart-agrawala")
    assert page.waits is not None
    helps = [*page.waits.helps[:number], *page.waits.helps[number + 1 :]]
    reader = WaitReader(page, replace(page.waits, helps=helps), Theory(page, 2))
    assert "fails" in [decide(wrong()) for place, _, wrong in reader.questions() if place == ENDS]


@pytest.mark.slow
def test_the_waits_of_maekawa_do_not_grow_and_have_help() -> None:
    """Some of its claims: all of them take a minute, by `coterie prove maekawa --waits`."""
    page = page_of("maekawa")
    assert page.waits is not None
    asked = list(WaitReader(page, page.waits, Theory(page)).questions())
    assert len(asked) == 313
    short = [q for q in asked if q.claim.endswith(("does not grow", "is possible", "is there"))]
    assert {decide(question.wrong()) for question in short[::3]} == {"proved"}


@pytest.mark.parametrize("name", LINKED)
def test_the_page_of_the_algorithm_says_what_is_proved(name: str) -> None:
    entry = library.find(name)
    folder = "algorithms" if entry.algorithm in ALL else "transactions"
    page = {"two-phase-commit": "several-sites"}.get(name, entry.algorithm)
    lines = (DOCS / folder / f"{page}.md").read_text(encoding="utf-8").splitlines()
    said = " ".join(line for line in lines if line.startswith("[Proved](../prove.md)"))
    promises = [clause.words for clause in page_of(name).promises]
    if page_of(name).waits is not None:
        promises.append("every wait ends")
    assert [words for words in promises if words not in said] == []
