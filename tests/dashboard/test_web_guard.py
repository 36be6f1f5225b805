"""The guard before the pages: foreign hosts, foreign origins, forms and floods are refused."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route

from coterie.dashboard.app import make_app
from coterie.dashboard.guard import BODY_BYTES_MAX, Guard
from coterie.dashboard.server import WebServer, address_file
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


TOKEN = "5eed" * 8


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer ", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Bearer {TOKEN}0", 401),
        (f"Basic {TOKEN}", 401),
        ("Bearer \xe9", 401),
        (f"Bearer {TOKEN}", 200),
    ],
)
def test_questions_need_the_token_and_pages_do_not(given: str | None, status: int) -> None:
    app = Guard(make_app(ROUTES), [HOST], TOKEN)
    headers = {} if given is None else {"authorization": given}
    for path in ("/api/echo", "/api/nothing"):
        answer = ask(app, path, headers=headers)
        assert answer.status == (404 if status == 200 and path == "/api/nothing" else status)
        assert TOKEN.encode() not in answer.body
    assert ask(app, f"/api/echo?token={TOKEN}").status == 401  # an address stands in logs
    assert ask(app, "/api/echo", headers={"cookie": f"token={TOKEN}"}).status == 401
    assert ask(app, "/echo").status == 200
    assert ask(app, "/assets/style.css").status == 200


def test_a_token_does_not_open_the_page_to_another_site() -> None:
    app = Guard(make_app(ROUTES), [HOST], TOKEN)
    headers = {"authorization": f"Bearer {TOKEN}", "origin": "http://evil.example"}
    assert ask(app, "/api/echo", headers=headers).status == 403


def test_the_token_of_an_address_is_sent_to_no_server() -> None:
    async def address() -> str:
        server = WebServer(make_app(ROUTES), 0, token=TOKEN)
        server.stop()
        await server.serve()  # closes what it listens at
        return server.opening_address("/echo")

    whole = urlsplit(asyncio.run(address()))
    assert (whole.path, whole.query, whole.fragment) == ("/echo", "", f"token={TOKEN}")
    with address_file(whole.geturl()) as file:
        assert file.parent.stat().st_mode & 0o077 == 0
        assert whole.geturl() in file.read_text()
    assert not file.parent.exists()
