"""One change from the command line: the plan, the consent, the progress, and how to go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from coterie.cli.common.output import print_json
from coterie.cli.common.progress import ProgressLine
from coterie.cluster.change import plan
from coterie.cluster.change.formation import forming_goal
from coterie.cluster.change.host import Change
from coterie.cluster.change.operation import check_end, check_quorum, replace_disk
from coterie.cluster.change.plan import ChangePlan, make_plan
from coterie.cluster.change.survey import KnownConfiguration, check_orders, look, patience_of
from coterie.cluster.url import make_visit
from coterie.cluster.wire.frames import PROTOCOL
from coterie.errors import ChangeConflict, NoQuorum, NotFormed, Unavailable, UsageError
from coterie.locks.url import choose_url, scheme_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coterie.algorithms.mutex.quorum.leased.changer import Goal
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.cluster.client.access import Visit

POLL_SECONDS = 0.2
LEASE_SECONDS_MAX = 3600.0  # without consent
QUIET_SECONDS = 3.0  # before a missing quorum is mentioned
UNKNOWN = "nothing is decided as far as it is known: look with coterie cluster status"


class Terms(NamedTuple):
    """What every change is asked for with."""

    url: str | None
    if_number: int | None
    dry_run: bool
    yes: bool
    timeout: float | None
    output: str


class Rest(NamedTuple):
    """What is to be done where a change stops before its end."""

    unbegun: str = UNKNOWN
    then: str = ""  # when what is begun is finished


USUAL_REST = Rest()


class Outcome(msgspec.Struct, frozen=True):
    """What a change has come to, for programs."""

    cluster: str
    number: int
    voters: tuple[str, ...]
    steps: tuple[str, ...]
    failures_borne: dict[str, int]
    switch_off: tuple[str, ...]
    done: bool


def visit_of(url: str | None) -> Visit:
    """Return the way to the cluster that is meant."""
    chosen = choose_url(url)
    if scheme_of(chosen) != "coterie":
        raise UsageError(
            f"only a cluster has voters, and {scheme_of(chosen)}: is none; name one with --url"
            " coterie://HOST:7420"
        )
    return make_visit(chosen)


def run_change(
    terms: Terms, make_goal: Callable[[KnownConfiguration], Awaitable[Goal]], *, forms: bool = False
) -> int:
    """Change a cluster as it is asked for; `forms`: also one that has no number yet."""
    return asyncio.run(_change(terms, make_goal, forms=forms))


def run_replacement(terms: Terms, name: str, address: str | None) -> int:
    """Make the new disk of a node a voter in the place of the lost one."""
    return asyncio.run(_replace_disk(terms, name, address))


async def _change(
    terms: Terms, make_goal: Callable[[KnownConfiguration], Awaitable[Goal]], *, forms: bool
) -> int:
    deadline = _deadline(terms)
    standing = await _look(terms, forms=forms)
    goal = await make_goal(standing)
    if standing.configuration.number == 0:
        if goal.protocol != PROTOCOL:
            raise UsageError(
                f"cluster {standing.membership.cluster!r} is not formed yet; that is done by"
                f" protocol={PROTOCOL}, got protocol={goal.protocol}"
            )
        goal = await forming_goal(standing.membership, standing.security)
    intended = make_plan(standing.configuration, goal, standing.gone)
    check_quorum(standing, intended)
    _show(standing, intended)
    _check(terms, standing, intended)
    if terms.dry_run or not (intended.steps or standing.behind):
        return _report(terms, standing, intended, standing.configuration, done=not terms.dry_run)
    reached = await _carry_out(terms, standing, goal, deadline)
    return _report(terms, standing, intended, reached, done=True)


async def _replace_disk(terms: Terms, name: str, address: str | None) -> int:
    """Remove the voter and add its successor: two of one name cannot stand side by side."""
    deadline = _deadline(terms)
    standing = await _look(terms, forms=False)
    without, second, newcomer = await replace_disk(standing, name, address)
    intended = ChangePlan(
        second.goal, (*without.steps, *second.steps), without.before, without.after, second.after
    )
    _show(standing, intended)
    _check(terms, standing, without, agreed=intended)
    if terms.dry_run:
        return _report(terms, standing, intended, standing.configuration, done=False)
    adding = f"coterie cluster add {name}={newcomer.address}"
    go_on = Rest(then=f", then {adding}")
    between = await _carry_out(terms, standing, without.goal, deadline, go_on)
    rest = Rest(f"{name} is no voter now; make it one with {adding}")
    after = msgspec.structs.replace(standing, membership=standing.membership.after(between))
    reached = await _carry_out(terms, after, plan.add(between, [newcomer]), deadline, rest)
    return _report(terms, standing, intended, reached, done=True)


async def _look(terms: Terms, *, forms: bool) -> KnownConfiguration:
    standing = await look(visit_of(terms.url), patience_of(terms.timeout))
    number, cluster = standing.configuration.number, standing.membership.cluster
    if terms.if_number is not None and terms.if_number != number:
        by = f", by {standing.configuration.by}" if standing.configuration.by else ""
        raise ChangeConflict(
            f"cluster {cluster!r} has configuration {number}{by}, and the command is meant for"
            f" {terms.if_number}: look at it with coterie cluster status"
        )
    if number == 0 and not forms:
        await refuse_unformed(standing)
    return await check_orders(standing)


async def refuse_unformed(standing: KnownConfiguration) -> None:
    """Raise `NotFormed` and say what is missing."""
    cluster = f"cluster {standing.membership.cluster!r}"
    await forming_goal(standing.membership, standing.security)
    raise NotFormed(
        f"{cluster} is not formed yet, and all its nodes are there: try again in some seconds; if its"
        " data directories were made by an earlier version of coterie, form it with coterie cluster"
        f" set protocol={PROTOCOL} when all programs run this one"
    )


def _show(standing: KnownConfiguration, intended: ChangePlan) -> None:
    present = standing.configuration
    names = ", ".join(member.name for member in standing.membership.members)
    click.echo(
        f"cluster {standing.membership.cluster}, configuration {present.number}: {names}", err=True
    )
    for step in intended.steps or ("nothing is to be changed",):
        click.echo(f"  {step}", err=True)
    if intended.steps:
        now, during, after = map(_borne, (intended.before, intended.during, intended.after))
        click.echo(
            f"  failures borne: {now} now, {during} during the change, {after} afterwards", err=True
        )


def _borne(failures: int) -> str:
    return str(failures) if failures >= 0 else "no quorum"


def _check(
    terms: Terms,
    standing: KnownConfiguration,
    intended: ChangePlan,
    *,
    agreed: ChangePlan | None = None,
) -> None:
    """Refuse what would stop half-way, and what makes the cluster weaker without consent."""
    check_end(standing, intended)
    _check_lease(terms, standing, intended)
    agreed = agreed or intended
    if agreed.after < agreed.before and not terms.yes:
        raise UsageError(
            f"afterwards the cluster bears {_failures(agreed.after)} where it bears {agreed.before}"
            " now: add --yes if that is meant"
        )


def _check_lease(terms: Terms, standing: KnownConfiguration, intended: ChangePlan) -> None:
    """Refuse a lease that is likely a typing error: after a start, nodes give no votes for so long."""
    part, present = intended.goal.part, standing.configuration.settings.lease
    if part is None or terms.yes or part.settings.lease <= max(present, LEASE_SECONDS_MAX):
        return
    raise UsageError(
        f"a lease of {part.settings.lease:g} s keeps a lock for so long after its holder is gone, and"
        " nodes give no votes for so long after a start: add --yes if that is meant"
    )


def _failures(count: int) -> str:
    return f"{count} failure" if count == 1 else f"{count} failures"


def _deadline(terms: Terms) -> float | None:
    """Return the time of the event loop at which the whole command is to end."""
    return None if terms.timeout is None else asyncio.get_running_loop().time() + terms.timeout


async def _carry_out(
    terms: Terms,
    standing: KnownConfiguration,
    goal: Goal,
    deadline: float | None,
    rest: Rest = USUAL_REST,
) -> Configuration:
    line = ProgressLine()

    def stepped(configuration: Configuration) -> None:
        line.say(step_words(configuration, change.changer.name))

    change = Change(standing.membership, standing.security, goal, stepped, standing.places)
    running = asyncio.ensure_future(change.run())
    watching = asyncio.ensure_future(_watch(change, line))
    try:
        left = None if deadline is None else deadline - asyncio.get_running_loop().time()
        await asyncio.wait({running}, timeout=left)
        if running.done():
            return running.result()
        raise _not_done(change, standing, terms, how_to_go_on(change, rest))
    except asyncio.CancelledError:
        line.say(f"interrupted: {change.progress()}; {how_to_go_on(change, rest)}")
        raise
    finally:
        for task in (running, watching):
            task.cancel()
        await asyncio.wait({running, watching})
        line.close()


def step_words(configuration: Configuration, changer: str) -> str:
    """Say that a configuration is decided: by this changer, or by another one."""
    kind = " (joint)" if configuration.is_joint else ""
    decided = "is decided"
    if configuration.by != changer:
        decided = f"was decided by {configuration.by or 'another changer'}"
    return f"configuration {configuration.number}{kind} {decided}"


def how_to_go_on(change: Change, rest: Rest) -> str:
    """Say what is to be done where a change stops now; only a joint step can be taken back."""
    newest, goal = change.changer.configuration, change.changer.goal
    ends_another = goal.part is None or goal.takes_back
    if newest.number == goal.base and not ends_another:
        return rest.unbegun
    works = "the cluster works on; " if change.is_served() else ""
    back = ", or take it back with coterie cluster abort" if newest.is_joint else ""
    return f"{works}go on with coterie cluster finish{rest.then}{back}"


async def _watch(change: Change, line: ProgressLine) -> None:
    """Show what is waited for; say once that no quorum is there."""
    loop = asyncio.get_running_loop()
    missing_since: float | None = None
    told = False
    while True:
        await asyncio.sleep(POLL_SECONDS)
        line.show(change.progress())
        missing = change.unreachable()
        if not missing:
            missing_since, told = None, False
            continue
        missing_since = missing_since or loop.time()
        if not told and loop.time() >= missing_since + QUIET_SECONDS:
            told = True
            line.say(f"no quorum of the voters answers: {_named(missing)}; waiting for them")


def _named(missing: dict[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in missing.items())


def _not_done(
    change: Change, standing: KnownConfiguration, terms: Terms, further: str
) -> Unavailable:
    missing = change.unreachable()
    cluster = f"cluster {standing.membership.cluster!r}"
    if missing:
        return NoQuorum(
            f"no quorum of the voters of {cluster} has answered in {terms.timeout:g} s:"
            f" {_named(missing)}; {further}; if they are lost for good, see coterie cluster force"
        )
    return Unavailable(
        f"the change of {cluster} is not complete after {terms.timeout:g} s: {change.progress()};"
        f" {further}"
    )


def _report(
    terms: Terms,
    standing: KnownConfiguration,
    intended: ChangePlan,
    reached: Configuration,
    *,
    done: bool,
) -> int:
    leaving = intended.leaving if done else ()
    seats = reached.seats
    voters = tuple(member.name for member in standing.membership.after(reached).members)
    if terms.output == "json":
        borne = {"before": intended.before, "during": intended.during, "after": intended.after}
        outcome = Outcome(
            standing.membership.cluster,
            reached.number,
            voters,
            intended.steps,
            borne,
            leaving,
            done,
        )
        print_json(outcome)
        return 0
    if done:
        off = f"; {', '.join(leaving)} may be switched off" if leaving else ""
        away = [v.name for v in standing.voters if v.seat in standing.gone and v.seat in seats]
        silent = f"; {', '.join(away)} did not answer" if away else ""
        click.echo(f"configuration {reached.number}: {', '.join(voters)}{off}{silent}")
    return 0
