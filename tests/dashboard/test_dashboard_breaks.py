"""Ending a hold from the page: who may, what has to be typed, and what is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.dashboard import breaks
from coterie.dashboard.app import make_app
from coterie.dashboard.guard import Guard
from coterie.dashboard.monitor import Monitor
from coterie.dashboard.routes import dashboard_routes
from coterie.errors import ConfigError, Unavailable
from coterie.locks.breaker import EndedHolds, FoundHold, find_operators_breaker
from coterie.locks.engine import LockState, Party
from tests.asgi import HOST, Answer, ask

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "7" * 32
LARGE = 2**62 + 1  # more than a page can count
RIGHT = {"lock": "nightly", "typed": "nightly", "token": str(LARGE)}


class ScriptedBreaker:
    """Has one hold, and remembers whether it was ended."""

    def __init__(self) -> None:
        self.state = LockState("nightly", [Party("p", "host:1", 1.0, LARGE)], [], [])
        self.participants: tuple[str, ...] = ("p",)
        self.ended: list[FoundHold] = []
        self.error: Exception | None = None

    async def find(self, lock: str) -> FoundHold:
        assert lock == "nightly"
        if self.error:
            raise self.error
        return FoundHold(self.state, self.participants)

    async def end(self, found: FoundHold) -> EndedHolds:
        self.ended.append(found)
        return EndedHolds(("host:1",))


@pytest.fixture
def breaker(monkeypatch: pytest.MonkeyPatch) -> ScriptedBreaker:
    scripted = ScriptedBreaker()
    monkeypatch.setattr(breaks, "find_operators_breaker", lambda _: scripted)
    return scripted


def order(document: Any, **headers: str) -> Answer:
    app = Guard(make_app(dashboard_routes(Monitor("coterie://127.0.0.1:1"))), [HOST], TOKEN)
    sent = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return ask(app, "/api/cluster/break", method="POST", headers=sent, body=body)


def test_an_order_ends_what_the_page_has_shown(breaker: ScriptedBreaker) -> None:
    answer = order(RIGHT)
    assert (answer.status, msgspec.json.decode(answer.body, type=EndedHolds).told) == (
        200,
        ("host:1",),
    )
    assert [found.token for found in breaker.ended] == [LARGE]


@pytest.mark.parametrize(
    ("document", "status"),
    [
        (RIGHT | {"typed": "nightl"}, 400),
        (RIGHT | {"typed": ""}, 400),
        (RIGHT | {"typed": "NIGHTLY"}, 400),
        (RIGHT | {"lock": "x" * 300, "typed": "x" * 300}, 400),
        (RIGHT | {"token": LARGE}, 400),
        (RIGHT | {"token": str(LARGE - 1)}, 409),  # another holder by now
        (RIGHT | {"token": None}, 409),
        ({"lock": "nightly"}, 400),
        (b"{", 400),
        (b"\xff", 400),
    ],
)
def test_any_other_order_leaves_the_hold_alone(
    breaker: ScriptedBreaker, document: Any, status: int
) -> None:
    assert order(document).status == status
    assert not breaker.ended


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"content_type": "text/plain"}, 415),  # what a form of another page can send
        ({"authorization": "Bearer 8"}, 401),
        ({"authorization": "", "cookie": f"token={TOKEN}"}, 401),
    ],
)
def test_an_order_from_elsewhere_leaves_the_hold_alone(
    breaker: ScriptedBreaker, headers: dict[str, str], status: int
) -> None:
    assert order(RIGHT, **headers).status == status
    assert not breaker.ended


def test_a_holder_that_does_not_answer_has_no_token_to_be_seen(breaker: ScriptedBreaker) -> None:
    breaker.state = LockState("nightly", [], ["host:1"], [])
    assert order(RIGHT).status == 409
    assert order(RIGHT | {"token": None}).status == 200


def test_a_lock_that_is_free_by_now_is_said_to_be(breaker: ScriptedBreaker) -> None:
    breaker.participants = ()
    answer = order(RIGHT)
    assert (answer.status, b"is not held any more" in answer.body) == (409, True)


@pytest.mark.parametrize(
    ("error", "status"), [(ConfigError("another secret"), 403), (Unavailable("no node"), 503)]
)
def test_the_reason_of_a_failure_is_answered(
    breaker: ScriptedBreaker, error: Exception, status: int
) -> None:
    breaker.error = error
    answer = order(RIGHT)
    assert (answer.status, answer.body.decode()) == (status, str(error))


def test_only_a_program_with_the_operator_secret_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COTERIE_OPERATOR_SECRET_FILE", raising=False)
    cluster = "coterie://127.0.0.1:1"
    for url in (cluster, f"file:{tmp_path}", "nats://127.0.0.1:1"):
        assert find_operators_breaker(url) is None
        assert breaks.right_at(url) == breaks.BreakRight(allowed=False)
    assert order(RIGHT).status == 403
    secret = tmp_path / "operators"
    monkeypatch.setenv("COTERIE_OPERATOR_SECRET_FILE", str(secret))
    assert not breaks.right_at(cluster).allowed  # it cannot be read
    secret.write_text("a secret of operators alone")
    secret.chmod(0o600)
    assert breaks.right_at(cluster).allowed
    assert find_operators_breaker(f"file:{tmp_path}") is None
