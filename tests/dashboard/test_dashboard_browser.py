"""The dashboard in a real browser, on real processes: what a person sees within moments."""

from __future__ import annotations

import re
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser import findings_everywhere, serious_findings, watched_page
from tests.cluster.local_cluster import Processes
from tests.processes import BOUND_SECONDS, CROSSING, Directory, directory, line

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.real
LOST = 79  # exit status
MILLISECONDS = 1000 * BOUND_SECONDS
expect.set_options(timeout=MILLISECONDS)


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Directory]:
    with directory(tmp_path / "locks") as opened:
        yield opened


def dashboard(
    locks: Directory, url: str | None = None, environment: dict[str, str] | None = None
) -> tuple[subprocess.Popen[str], str]:
    named = ["--url", url] if url else []
    command = ("status", *named, "--web", "--port", "0", "--no-open")
    serving = locks.start(*command, environment=environment or {})
    return serving, line(serving)


def lock_row(page: Page, name: str) -> Locator:
    return page.locator(".lock").filter(has=page.get_by_role("button", name=name, exact=True))


def test_holders_waiters_and_deadlocks_of_a_directory_appear_and_end(
    browser: Browser, locks: Directory
) -> None:
    serving, address = dashboard(locks)
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(address)
        expect(page.get_by_text("Nothing is held")).to_be_visible()
        crossing = [locks.python("-c", CROSSING, *names) for names in (("a", "b"), ("b", "a"))]
        for process in crossing:
            assert line(process) == "holds"
        holder = lock_row(page, "a")
        expect(holder.locator(".holder")).to_contain_text(f":{crossing[0].pid}")
        expect(holder.locator(".holder")).to_contain_text(re.compile(r"held \d"))
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator(".verdict strong")).to_have_text("Well:")
        for process in crossing:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        alarm = page.get_by_role("alert")
        expect(alarm).to_contain_text("wait for each other")
        expect(alarm).to_contain_text("A cycle of 4")
        expect(alarm).to_contain_text(re.compile(r"waits for lock b, for [\d.]+ s"))
        expect(page.locator(".verdict.is-broken")).to_be_visible()
        assert page.title().startswith("✕")
        expect(page.locator(".lock.is-broken")).to_have_count(2)
        page.get_by_role("button", name="a", exact=True).click()
        expect(holder.locator(".waiter")).to_contain_text(
            f"held by {socket.gethostname()}:{crossing[0].pid}"
        )
        expect(holder.locator(".lock-more")).to_contain_text("History")
        assert page.url.endswith("#lock=a")
        expect(page.locator(".events")).to_contain_text("deadlock:")
        expect(page.locator(".events")).not_to_contain_text("held by")
        page.get_by_role("button", name="All").click()
        expect(page.locator(".events")).to_contain_text("held by")
        picture = page.get_by_role("img", name="wait-for graph")
        expect(picture.locator("path, line").first).to_be_attached()
        assert findings_everywhere(page) == []
        for process in crossing:
            process.kill()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_text("Nothing is held")).to_be_visible()
    serving.send_signal(signal.SIGINT)
    assert serving.wait(BOUND_SECONDS) == 0


def test_jobs_have_a_square_for_each_run(browser: Browser, locks: Directory) -> None:
    job = ("once", "nightly", "--period", "2026-11-17", "--attempts", "3", "-c")
    for script in ("exit 3", "true"):
        locks.run(*job, script)
    _, address = dashboard(locks)
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(address)
        row = page.locator(".job")
        expect(row).to_contain_text("nightly")
        expect(row.locator(".chip")).to_contain_text("done")
        expect(row.locator(".run .hidden-text")).to_have_text(
            ["2026-11-17: failed, exit status 3", "2026-11-17: done"]
        )
        assert serious_findings(page) == []


def test_a_lock_of_a_cluster_appears_and_a_killed_node_is_down(
    browser: Browser, locks: Directory, tmp_path: Path
) -> None:
    cluster = Processes(tmp_path)
    try:
        cluster.start("a", "b", "c", new=True)
        serving, address = dashboard(locks, cluster.url)
        with watched_page(browser, color_scheme="dark") as watched:
            page = watched.page
            page.goto(address)
            expect(page.locator(".verdict")).to_contain_text("Healthy")
            held = locks.start(
                "lock", "nightly", "--", "cat", environment={"COTERIE_URL": cluster.url}
            )
            row = lock_row(page, "nightly")
            expect(row.get_by_role("button", name=re.compile(r"copy token \d{6,}"))).to_be_visible()
            assert serious_findings(page) == []
            cluster.kill("c")
            expect(page.locator(".nodes li").first).to_contain_text("c")  # the worst stands first
            expect(page.locator(".nodes li").first).to_contain_text("down")
            expect(page.locator(".verdict.is-risky")).to_contain_text("Degraded")
            expect(page.locator(".events")).to_contain_text("c: down")
            held.terminate()
            # The node that is asked first may be any: all have to go before nothing answers.
            cluster.kill("a")
            cluster.kill("b")
            expect(page.get_by_role("status")).to_contain_text("Not known: no answer since")
            expect(page.locator(".verdict.is-open")).to_contain_text("it was degraded")
            assert serious_findings(page) == []
        serving.send_signal(signal.SIGINT)
        assert serving.wait(BOUND_SECONDS) == 0
    finally:
        cluster.end()


def test_an_operator_ends_a_hold_with_the_name_typed_out(
    browser: Browser, locks: Directory, tmp_path: Path
) -> None:
    secret = tmp_path / "operators"
    secret.write_text("a secret of operators alone")
    secret.chmod(0o600)
    operator = {"COTERIE_OPERATOR_SECRET_FILE": str(secret)}
    cluster = Processes(tmp_path, changes={"operator-secret-file": str(secret)})
    try:
        cluster.start("a", "b", "c", new=True)
        job = ("lock", "--url", cluster.url, "nightly", "-c")
        first = locks.start(*job, "echo holds; cat")
        assert line(first) == "holds"
        _, plain = dashboard(locks, cluster.url)
        _, address = dashboard(locks, cluster.url, operator)
        with watched_page(browser) as watched:
            page = watched.page
            page.goto(plain)
            page.get_by_role("button", name="nightly", exact=True).click()
            expect(page.locator(".lock-more")).to_contain_text("This page only looks")
            expect(page.get_by_role("button", name="End the hold")).to_have_count(0)
            page.goto(address)
            assert "token" not in page.url
            page.get_by_role("button", name="nightly", exact=True).click()
            end = page.get_by_role("button", name="End the hold")
            expect(end).to_be_disabled()
            page.get_by_label("Type the name of the lock").fill("nightl")
            expect(end).to_be_disabled()
            next_in_line = locks.start(*job, "echo holds; cat")
            page.get_by_label("Type the name of the lock").fill("nightly")
            expect(end).to_be_enabled()
            assert findings_everywhere(page) == []
            page.get_by_label("Type the name of the lock").press("Enter")
            expect(page.locator(".end-hold [role=status]")).to_contain_text(
                f"Told to stop: {socket.gethostname()}:{first.pid}"
            )
            expect(page.locator(".holder")).to_contain_text(f":{next_in_line.pid}")
            assert first.wait(BOUND_SECONDS) == LOST
            assert any("[hold-broken]" in cluster.log(node) for node in "abc")
    finally:
        cluster.end()


def test_nothing_is_shown_without_the_token_of_the_address(
    browser: Browser, locks: Directory
) -> None:
    _, address = dashboard(locks)
    with watched_page(browser) as watched:
        page = watched.page
        for wrong in ("", "#token=0123"):
            page.goto(address.partition("#")[0] + wrong)
            expect(page.get_by_role("status")).to_contain_text("open the address that")
            expect(page.locator(".lock")).to_have_count(0)
            page.goto("about:blank")
        watched.complaints.clear()  # a refusal is an answer; browsers write it down
        asked: list[str] = []
        page.on("request", lambda each: asked.append(f"{each.url} {each.headers.get('referer')}"))
        page.goto(address)
        expect(page.get_by_text("live")).to_be_visible()
        page.reload()  # the address has no token any more, and the page still has it
        expect(page.get_by_text("live")).to_be_visible()
        token = address.partition("#token=")[2]
        assert len(token) == 32
        assert not [each for each in asked if token in each.partition("#")[0]]
        other = page.context.new_page()
        other.goto(address.partition("#")[0])
        expect(other.get_by_text("live")).to_be_visible()
        assert page.context.cookies() == []


@pytest.mark.parametrize("width", [390, 640])
def test_a_narrow_page_scrolls_its_tables_and_not_itself(
    browser: Browser, locks: Directory, width: int
) -> None:
    _, address = dashboard(locks)
    holder = locks.start("lock", "a-long-name/of-a-lock/that-is-hardly-readable", "--", "cat")
    with watched_page(browser, viewport={"width": width, "height": 700}) as watched:
        page = watched.page
        page.goto(address)
        expect(page.get_by_role("button", name="a-long-name")).to_be_visible()
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    holder.kill()


def test_pages_stop_asking_while_they_are_paused(browser: Browser, locks: Directory) -> None:
    _, address = dashboard(locks)
    with watched_page(browser) as watched:
        page = watched.page
        page.goto(address)
        expect(page.get_by_text("live")).to_be_visible()
        page.get_by_role("button", name="pause").press("Enter")
        expect(page.get_by_text("paused")).to_be_visible()
        page.get_by_role("button", name="go on").press("Enter")
        expect(page.get_by_text("live")).to_be_visible()


def test_eight_windows_of_one_browser_show_what_is_now(browser: Browser, locks: Directory) -> None:
    _, address = dashboard(locks)
    with watched_page(browser) as watched:
        context = watched.page.context
        pages = [watched.page, *(context.new_page() for _ in range(7))]
        for page in pages:
            page.goto(address)
            expect(page.get_by_text("live")).to_be_visible()
        holder = locks.start("lock", "nightly")
        for page in pages:
            expect(page.get_by_role("button", name="nightly")).to_be_visible()
        pages[0].close()  # it has listened for all
        holder.kill()
        for page in pages[1:]:
            expect(page.get_by_text("Nothing is held")).to_be_visible()


def test_a_long_name_leaves_room_for_the_holder(browser: Browser, locks: Directory) -> None:
    _, address = dashboard(locks)
    name = "a" * 200
    holder = locks.start("lock", name, "--", "cat")
    with watched_page(browser, viewport={"width": 1024, "height": 700}) as watched:
        page = watched.page
        page.goto(address)
        owner = page.locator(".lock").filter(has=page.get_by_title(name)).locator(".holder")
        expect(owner).to_contain_text(f":{holder.pid}")
        place = owner.bounding_box()
        assert place is not None
        assert place["x"] + place["width"] <= 1024
        assert serious_findings(page) == []
    holder.kill()
