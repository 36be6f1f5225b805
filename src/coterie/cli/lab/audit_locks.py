"""`coterie audit-locks`: try a lock of any library under faults, and judge the record of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from coterie.cli.common.output import output_option, print_json, print_table, write_file
from coterie.cli.common.progress import ProgressLine
from coterie.cli.common.signals import Signals
from coterie.cli.lab.options import to_path
from coterie.lab.lock_audit.audit import audit_lock
from coterie.lab.lock_audit.picture import draw_violation
from coterie.lab.lock_audit.trial import LockAuditPlan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from coterie.lab.lock_audit.verdict import Exclusion, LockVerdict


@click.command("audit-locks")
@click.argument("target")
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many times something happens.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of what happens.")
@click.option(
    "--programs",
    type=click.IntRange(min=2),
    default=3,
    show_default=True,
    help="Programs that take the lock.",
)
@click.option("--faults", metavar="NAME,…", help="What may happen. [default: all but remove]")
@click.option(
    "--picture",
    type=click.Path(dir_okay=False),
    callback=to_path,
    help="Draw the smallest violation into an SVG file.",
)
@output_option
def command(
    *,
    target: str,
    rounds: int,
    seed: int,
    programs: int,
    faults: str | None,
    picture: Path | None,
    output: str,
) -> int:
    """Let programs take the lock of TARGET while faults happen, and judge what they have seen.

    \b
      redis-py, pottery (Redlock), etcd3gw, kazoo, psycopg
                                           a lock of that library, on servers that are started for it
      filelock, fasteners                  a lock file, in a folder of its own
      file, coterie, valkey, postgresql, etcd, zookeeper
                                           the lock of coterie there, and on a cluster
      ./mylock.py                          an adapter of your own, of about ten lines

    \b
    To a program or its connection:        kill, suspend, stall, mute, deafen (silence in both directions
                                           or one), sever, reset, forget (half-open), delay
    To the server:                         hang, restart, restart-empty, stop, end-sessions, step (of its
                                           clock), remove (of the files)

    Judged are exclusion, a fence that goes back, and forgotten waiters; all else is measured. Servers and
    proxies listen on 127.0.0.1 alone. Exits with 0 if nothing was found, 1 if something was, 69 if no program
    gets the lock, 78 if a library or a server is not installed.
    """  # noqa: D301 - Click needs the character itself
    names = tuple(name.strip() for name in faults.split(",")) if faults else ()
    plan = LockAuditPlan(target, rounds, seed, programs, names)
    line = ProgressLine()
    try:
        verdict, trial, smallest = audit_lock(plan, line.show, _run)
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 130
    finally:
        line.close()
    if picture is not None and smallest is not None:
        drawn = draw_violation(smallest, trial.turns.all, trial.happened, verdict)
        write_file(picture, drawn)
    elif picture is not None:
        click.echo("nothing to draw: no two turns contradict each other", err=True)
    if output == "json":
        print_json(verdict)
    else:
        _print(verdict)
    return 0 if verdict.is_kept else 1


def _run(trial: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        with Signals().handled():
            await trial()

    asyncio.run(main())


def _print(verdict: LockVerdict) -> None:
    where = f" on {verdict.server}" if verdict.server else ""
    result = "nothing found" if verdict.is_kept else "BROKEN"
    click.echo(f"{verdict.target} ({verdict.version or 'an adapter'}){where}: {result}")
    faults = ", ".join(f"{count} {name}" for name, count in verdict.faults.items())
    click.echo(f"{verdict.holds:,} holds by {verdict.programs} programs; {faults or 'no fault'}\n")
    rows = [["exclusion", *_exclusion(verdict.exclusion)]]
    if verdict.exclusion_asked is not None:
        rows.append(["exclusion, if asked", *_exclusion(verdict.exclusion_asked)])
    rows += [
        ["fence", *_fence(verdict)],
        ["waiters", *_waiters(verdict)],
        ["order", "measured", _service(verdict)],
        ["left behind", "measured", _left_behind(verdict)],
        ["told", "measured", _told(verdict)],
    ]
    print_table(["", "verdict", "seen"], rows)
    if verdict.errors:
        errors = ", ".join(f"{count} {name}" for name, count in verdict.errors.items())
        click.echo(f"\nerrors of the library: {errors}")


def _exclusion(found: Exclusion) -> tuple[str, str]:
    if not found.overlaps:
        return "kept", "at most one program had the lock"
    lease = f", {found.beyond_lease} of them beyond the lease" if found.beyond_lease else ""
    after = ", ".join(f"{count} after {name}" for name, count in found.after.items())
    return (
        "broken",
        f"{found.overlaps} times two had it{lease}, for up to {found.seconds_max:.2f} s: {after}",
    )


def _fence(verdict: LockVerdict) -> tuple[str, str]:
    if not verdict.fence.is_given:
        return "none", "no token is given"
    if verdict.fence.back:
        return "broken", f"{verdict.fence.back} tokens were not above all before"
    return "kept", "each token was above all before"


def _waiters(verdict: LockVerdict) -> tuple[str, str]:
    if verdict.forgotten:
        return "broken", f"never served: {', '.join(verdict.forgotten)}"
    return "kept", "after each round every program got in again"


def _service(verdict: LockVerdict) -> str:
    service = verdict.service
    return (
        f"without faults, overtaken by at most {service.overtaken_max} that asked later;"
        f" waits up to {service.seconds_max:.2f} s"
    )


def _left_behind(verdict: LockVerdict) -> str:
    left = verdict.left_behind
    if not left.kills:
        return "no holder was killed"
    if left.seconds_median is None or left.seconds_max is None:
        return f"{left.kills} holders killed, and after one of them no program got in"
    return (
        f"{left.kills} holders killed, the next in after {left.seconds_median:.2f} s"
        f" (at most {left.seconds_max:.2f} s)"
    )


def _told(verdict: LockVerdict) -> str:
    told = verdict.told
    counts = {
        "by itself before another was in": told.before,
        "by itself, too late": told.after,
        "when it asked": told.asked,
        "at release": told.at_release,
        "never": told.never,
    }
    seen = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"of a loss: {seen}" if seen else "no hold was lost"
