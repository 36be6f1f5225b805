"""How wishes are carried out: save, send, arm, tell; and input before late timers."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Any

from coterie.cluster.runtime.driver import Driver
from coterie.mutex.quorum.leased.participant import Acquired
from tests.cluster.local_cluster import until
from tests.cluster.virtual_time import run, sleep_through

if TYPE_CHECKING:
    import pytest

    from coterie.process import Outbox


class Recorder:
    """A part of a protocol that does nothing but note what happens."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.disk_full = False
        self.driver = Driver(
            lambda to, frame: self.log.append(f"send {frame} to {to}"),
            lambda timer, _: self.log.append(f"ring {timer}"),
            lambda event: self.log.append(f"tell {type(event).__name__}"),
            self._save,
        )
        self.driver.on_failure = lambda error: self.log.append(f"fail {error.strerror}")

    def _save(self, value: bytes) -> None:
        if self.disk_full:
            raise OSError(errno.ENOSPC, "disk full")
        self.log.append(f"save {value.decode()}")

    def everything(self, out: Outbox[Any]) -> None:
        out.tell(Acquired("x", 1))
        out.set_timer("soon", 0)
        out.send(2, "frame")
        out.save(b"7")


def test_wishes_are_carried_out_in_the_order_save_send_arm_tell() -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.driver.step(recorder.everything)
        await asyncio.sleep(0.001)
        return recorder.log

    assert asyncio.run(main()) == ["save 7", "send frame to 2", "tell Acquired", "ring soon"]


def test_what_cannot_be_saved_is_not_sent_and_nothing_happens_any_more() -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.disk_full = True
        recorder.driver.step(recorder.everything)
        recorder.disk_full = False
        recorder.driver.step(recorder.everything)
        return recorder.log

    assert asyncio.run(main()) == ["fail disk full"]


def test_who_has_slept_handles_what_has_arrived_before_timers_ring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)

        async def listen() -> None:
            while await reader.read(1):
                recorder.driver.step(lambda _: recorder.log.append("input"))

        listening = asyncio.ensure_future(listen())
        recorder.driver.step(lambda out: out.set_timer("expiry", 0.01))
        with theirs:
            theirs.sendall(b"12345")
            sleep_through(1.0)
            await until(lambda: "ring expiry" in recorder.log, "the timer")
        await listening
        writer.close()
        await writer.wait_closed()
        return recorder.log

    log = run(monkeypatch, main)
    assert log[-1] == "ring expiry"
    assert log.count("input") == 5


def test_setting_a_timer_again_moves_it_and_cancelling_forgets_it() -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.driver.step(lambda out: out.set_timer("one", 60))
        recorder.driver.step(lambda out: out.set_timer("one", 0))
        recorder.driver.step(lambda out: out.set_timer("two", 0))
        recorder.driver.step(lambda out: out.cancel_timer("two"))
        await asyncio.sleep(0.01)
        return recorder.log

    assert asyncio.run(main()) == ["ring one"]
