"""The guard before the pages: foreign hosts, foreign origins, forms and floods are refused."""

from __future__ import annotations

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route

from coterie.dashboard.app import make_app
from coterie.dashboard.guard import BODY_BYTES_MAX, Guard
from tests.asgi import HOST, ask


async def echo(request: object) -> JSONResponse:
    body = await request.body()  # type: ignore[attr-defined]
    return JSONResponse({"bytes": len(body)})


ROUTES = [Route(path, echo, methods=["GET", "POST"]) for path in ("/echo", "/api/echo")]
APP = Guard(make_app(ROUTES), [HOST, "localhost:8420"])
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:8421",
        "127.0.0.1:8420.evil.example",
        "",
        "LOCALHOST:8420x",
    ],
)
def test_another_host_is_refused(host: str) -> None:
    assert ask(APP, "/echo", headers={"host": host}).status == 403


@pytest.mark.parametrize("host", [HOST, "localhost:8420"])
def test_our_own_hosts_are_served(host: str) -> None:
    assert ask(APP, "/echo", headers={"host": host}).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8420"])
def test_another_origin_is_refused(origin: str) -> None:
    headers = {**JSON, "origin": origin}
    assert ask(APP, "/echo", method="POST", headers=headers, body=b"{}").status == 403


def test_our_own_origin_may_ask() -> None:
    headers = {**JSON, "origin": f"http://{HOST}"}
    assert ask(APP, "/echo", method="POST", headers=headers, body=b"{}").body == b'{"bytes":2}'


@pytest.mark.parametrize(
    ("path", "site", "status"),
    [
        ("/api/echo", "cross-site", 403),
        ("/api/echo", "same-site", 403),
        ("/api/echo", "same-origin", 200),
        ("/echo", "cross-site", 200),  # a link from elsewhere to a page may be followed
    ],
)
def test_nothing_is_done_for_a_picture_of_another_site(path: str, site: str, status: int) -> None:
    assert ask(APP, path, headers={"sec-fetch-site": site}).status == status


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_what_a_form_can_send_is_refused(kind: str) -> None:
    assert ask(APP, "/echo", method="POST", headers={"content-type": kind}).status == 415


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_refused(method: str) -> None:
    assert ask(APP, "/echo", method=method).status == 405


def test_a_body_is_bounded() -> None:
    whole = b"x" * BODY_BYTES_MAX
    assert ask(APP, "/echo", method="POST", headers=JSON, body=whole).status == 200
    assert ask(APP, "/echo", method="POST", headers=JSON, body=whole + b"x").status == 413


@pytest.mark.parametrize("path", ["/echo", "/assets/style.css", "/nothing", "/assets/../guard.py"])
def test_every_answer_forbids_foreign_scripts_and_frames(path: str) -> None:
    answer = ask(APP, path)
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers


def test_only_files_of_the_assets_are_served() -> None:
    assert ask(APP, "/assets/style.css").status == 200
    for path in ("/assets/../guard.py", "/assets/%2e%2e/guard.py", "/assets//etc/passwd"):
        assert ask(APP, path).status == 404
