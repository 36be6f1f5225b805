"""Whether the places that locks come from can be reached from here, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from typing import TYPE_CHECKING, Any, Literal

from coterie.cli.doctor.diagnosis import Diagnosis
from coterie.cluster.membership.config import load
from coterie.cluster.url import make_visit
from coterie.cluster.wire.certificate import days_left, own_certificate, reason_of
from coterie.cluster.wire.trouble import explain
from coterie.engines.queue.status import ServerSource
from coterie.errors import CoterieError, Unavailable
from coterie.locks.status import find_source
from coterie.locks.url import scheme_of, without_password

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.security import Security
    from coterie.locks.status import Look, ServiceFinding, Status

CALL_SECONDS_MAX = 3.0
SLOW_SECONDS = 0.25
EXPIRY_DAYS_FEW = 30
STATES: dict[Look, Literal["good", "look", "bad"]] = {
    "good": "good",
    "warning": "look",
    "bad": "bad",
}


def look_at_service(url: str) -> Iterator[Diagnosis]:
    """Ask every node or server that the URL names how it is."""
    name = without_password(url)
    try:
        for each in asyncio.run(_examine(url)):
            yield Diagnosis(each.what, STATES[each.look], each.found, each.advice)
        status = asyncio.run(_status(url))
    except Unavailable as error:
        yield Diagnosis(name, "bad", str(error), "start it, or look at addresses and firewalls")
        return
    except (CoterieError, UnicodeError) as error:
        yield Diagnosis(name, "bad", str(error), "see docs/troubleshooting.md for this error")
        return
    if getattr(status.state, "joint", False):
        advice = "end it with coterie cluster finish, or take it back with coterie cluster abort"
        yield Diagnosis(name, "look", "a change of its voters is under way", advice)
    if status.kind == "lock directory":
        yield from _look_at_directory(name, url)
    for node in status.nodes:
        what = f"{'server' if status.kind == 'server' else node.name} at {node.address}"
        if node.trouble:
            yield Diagnosis(what, "bad", node.trouble, "start it, or look at its log")
        else:
            yield Diagnosis(what, "good", "answers")


def _look_at_directory(name: str, url: str) -> Iterator[Diagnosis]:
    from coterie.engines.file.status import doubts  # noqa: PLC0415 - not on Windows

    found = doubts(url)
    for doubt, advice in found:
        yield Diagnosis(name, "look", doubt, advice)
    if not found:
        yield Diagnosis(name, "good", "the lock directory can be read")


async def _examine(url: str) -> list[ServiceFinding]:
    source = await find_source(url)
    return await source.examine() if isinstance(source, ServerSource) else []


async def _status(url: str) -> Status:
    return await (await find_source(url)).look()


def look_at_lines(url: str) -> Iterator[Diagnosis]:
    """Call every node of a cluster: how long that takes, and how long its certificate lasts."""
    if scheme_of(url) != "coterie":
        return
    visit = make_visit(url)
    tls = visit.security.client_context()
    for address in visit.addresses:
        yield from asyncio.run(_call(address, tls))
    yield from _look_at_own_certificate(visit.security)
    for path in visit.security.exposed_files():
        found, advice = "every user of this machine can read it", f"chmod 600 {path}"
        yield Diagnosis(f"secret in {path}", "look", found, advice)
    if visit.security.is_open:
        yield Diagnosis(
            "secret and TLS",
            "look",
            "neither: each program that reaches a node may take part",
            "set secret-file or [tls] unless the network is your own",
        )


async def _call(address: Address, tls: ssl.SSLContext | None) -> list[Diagnosis]:
    began = time.monotonic()
    try:
        async with asyncio.timeout(CALL_SECONDS_MAX):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    except (OSError, TimeoutError, UnicodeError) as error:
        advice = "start the node, or look at the address, firewalls and TLS"
        return [Diagnosis(f"line to {address}", "bad", explain(error), advice)]
    passed = time.monotonic() - began
    certificate = writer.get_extra_info("peercert")
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(CALL_SECONDS_MAX):
            await writer.wait_closed()
    found = [judge_call(address, passed)]
    if certificate:
        found.append(judge_certificate(f"certificate of {address}", certificate, time.time()))
    return found


def _look_at_own_certificate(security: Security) -> Iterator[Diagnosis]:
    """Judge our certificate as a node would."""
    what = f"our certificate {security.certificate}"
    try:
        certificate = own_certificate(security)
    except ssl.SSLError as error:
        found = f"nodes will not accept it: {reason_of(error)}"
        yield Diagnosis(what, "bad", found, "see docs/deploy/tls.md for how to make one")
        return
    if certificate:
        yield judge_certificate(what, certificate, time.time())


def judge_call(address: Address, seconds: float) -> Diagnosis:
    """Judge how long a connection took."""
    found = f"connected in {seconds * 1000:.1f} ms"
    if seconds <= SLOW_SECONDS:
        return Diagnosis(f"line to {address}", "good", found)
    advice = "each lock waits for a majority of such lines: the lease should be many times as long"
    return Diagnosis(f"line to {address}", "look", found, advice)


def judge_certificate(what: str, certificate: dict[str, Any], now: float) -> Diagnosis:
    """Judge for how long a certificate is still good."""
    days = days_left(certificate, now)
    found = f"ends on {certificate['notAfter']}, in {days:.0f} days"
    if days >= EXPIRY_DAYS_FEW:
        return Diagnosis(what, "good", found)
    return Diagnosis(
        what, "look", found, "replace it before: a node reads its files when it starts"
    )


def data_folders(url: str) -> list[Path]:
    """Return the data directories of nodes that the configuration names and this machine has."""
    if scheme_of(url) != "coterie" or url.startswith("coterie://"):
        return []
    config = load(url.removeprefix("coterie:"))
    named = [config.options(member.name).data for member in config.membership.members]
    return [folder for folder in dict.fromkeys(named) if folder is not None and folder.is_dir()]
