"""How a host carries out wishes: save, send, arm, tell; and input before late timers."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie import system
from coterie.algorithms.mutex.quorum.leased.participant import Acquired
from coterie.cluster.runtime.host import Host
from coterie.errors import ProtocolError
from coterie.process import Payload, encode
from coterie.system.alarm import Alarm
from tests.cluster.local_cluster import until
from tests.cluster.virtual_time import run, sleep_through

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.process import Outbox


class Note(Payload, frozen=True):
    """A message of the process."""

    number: int


class Other(Payload, frozen=True):
    """Another one."""


class Stranger(Payload, frozen=True):
    """A message of some other process."""


class Recorder:
    """A process, its disk and its links, which do nothing but note what happens."""

    messages = Note | Other

    def __init__(self) -> None:
        self.log: list[str] = []
        self.disk_full = False
        self.no_descriptor = False
        self.lost: set[int] = set()
        self.host = Host(
            self,
            lambda to, frame: self.log.append(f"send {frame} to {to}"),
            lambda event: self.log.append(f"tell {type(event).__name__}"),
            me=1,
            storage=self,
            log=self,
            lost=self.lost,
            on_disk_failure=lambda error: self.log.append(f"fail {error.strerror}"),
        )

    # As a process

    def start(self, out: Outbox[Any]) -> None:
        self.log.append(f"start {out.incarnation} with {out.saved!r} and {list(out.log)}")

    def receive(self, sender: int, message: Any, out: Outbox[Any]) -> None:
        self.log.append(f"receive {message} from {sender}")

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        self.log.append(f"ring {timer}")

    def down(self, peer: int, out: Outbox[Any]) -> None:
        self.log.append(f"down {peer}")

    def everything(self, out: Outbox[Any]) -> None:
        out.tell(Acquired("x", 1))
        out.set_timer("soon", 0)
        out.send(2, "frame")
        out.save(b"7")

    # As a disk

    def load(self) -> tuple[bytes, list[bytes]]:
        return b"7", [b"8"]

    def save(self, value: bytes) -> None:
        if self.no_descriptor:
            raise OSError(errno.EMFILE, "too many open files")
        if self.disk_full:
            raise OSError(errno.ENOSPC, "disk full")
        self.log.append(f"save {value.decode()}")

    def append(self, records: Sequence[bytes]) -> None:
        if self.disk_full:
            raise OSError(errno.ENOSPC, "disk full")
        self.log.append(f"append {list(records)}")

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        done(None)

    def wait(self) -> None:
        """A sync takes no time."""


def test_a_start_knows_its_number_and_what_is_on_disk() -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.host.start(3)
        return recorder.log

    assert asyncio.run(main()) == ["start 3 with b'7' and [b'8']"]


def test_the_messages_of_the_process_are_decoded_and_no_others() -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.host.deliver(2, encode(Note(5)))
        recorder.host.deliver(3, encode(Other()))
        with pytest.raises(msgspec.ValidationError, match="Stranger"):
            recorder.host.deliver(2, encode(Stranger()))
        return recorder.log

    assert asyncio.run(main()) == ["receive Note(number=5) from 2", "receive Other() from 3"]


def test_a_handler_that_raises_has_wished_for_nothing() -> None:
    async def main() -> list[str]:
        recorder = Recorder()

        def handler(out: Outbox[Any]) -> None:
            recorder.everything(out)
            raise ProtocolError("no correct peer sends this")

        with pytest.raises(ProtocolError):
            recorder.host.step(handler)
        await asyncio.sleep(0.001)
        return recorder.log

    assert asyncio.run(main()) == []


def test_wishes_are_carried_out_in_the_order_save_send_arm_tell() -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.host.step(recorder.everything)
        await asyncio.sleep(0.001)
        return recorder.log

    assert asyncio.run(main()) == ["save 7", "send frame to 2", "tell Acquired", "ring soon"]


def test_what_cannot_be_saved_is_not_sent_and_nothing_happens_any_more() -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.disk_full = True
        recorder.host.step(recorder.everything)
        recorder.disk_full = False
        recorder.host.step(recorder.everything)
        return recorder.log

    assert asyncio.run(main()) == ["fail disk full"]


def test_a_step_whose_value_finds_no_descriptor_waits_for_one_with_all_that_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.no_descriptor = True
        recorder.host.step(recorder.everything)
        recorder.host.step(lambda out: out.send(3, "later"))
        recorder.host.step(lambda out: out.append(b"record"))
        await asyncio.sleep(1.0)
        assert recorder.log == ["ring soon"], "timers go on"
        recorder.no_descriptor = False
        await asyncio.sleep(1.0)
        assert not recorder.host.failed
        return recorder.log

    assert run(monkeypatch, main) == [
        "ring soon",
        "save 7",
        "send frame to 2",
        "tell Acquired",
        "send later to 3",
        "append [b'record']",
    ]


def test_what_found_no_descriptor_until_the_end_has_failed_and_is_not_let_out() -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.no_descriptor = True
        recorder.host.step(recorder.everything)
        recorder.host.stop()
        assert recorder.host.failed
        recorder.no_descriptor = False
        await asyncio.sleep(0.1)
        return recorder.log

    assert asyncio.run(main()) == []


def test_who_has_slept_handles_what_has_arrived_before_timers_ring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)

        async def listen() -> None:
            while await reader.read(1):
                recorder.host.step(lambda _: recorder.log.append("input"))

        listening = asyncio.ensure_future(listen())
        recorder.host.step(lambda out: out.set_timer("expiry", 0.01))
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
        recorder.host.step(lambda out: out.set_timer("one", 60))
        recorder.host.step(lambda out: out.set_timer("one", 0))
        recorder.host.step(lambda out: out.set_timer("two", 0))
        recorder.host.step(lambda out: out.cancel_timer("two"))
        await asyncio.sleep(0.01)
        return recorder.log

    assert asyncio.run(main()) == ["ring one"]


@pytest.mark.parametrize("after", [None, 60.0], ids=["cancelled", "armed again"])
def test_a_late_timer_that_is_cancelled_before_its_turn_does_not_ring(
    after: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> list[str]:
        recorder = Recorder()

        def handler(out: Outbox[Any]) -> None:
            recorder.log.append("input")
            if after is None:
                out.cancel_timer("expiry")
            else:
                out.set_timer("expiry", after)

        recorder.host.step(lambda out: out.set_timer("expiry", 0.01))
        sleep_through(1.0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the timer has come, and waits for what has arrived
        recorder.host.step(handler)
        await asyncio.sleep(1.0)
        assert recorder.log == ["input"]
        await asyncio.sleep(60.0)
        return recorder.log

    assert run(monkeypatch, main) == ["input"] + ["ring expiry"] * (after is not None)


def test_a_timer_that_a_step_cancels_does_not_ring_while_its_records_wait_for_the_disk() -> None:
    async def main() -> list[str]:
        recorder = Recorder()

        def handler(out: Outbox[Any]) -> None:
            out.append(b"over")
            out.cancel_timer("now")

        recorder.host.step(lambda out: out.set_timer("now", 0))
        recorder.host.step(handler)
        await asyncio.sleep(0.001)
        return recorder.log

    assert asyncio.run(main()) == ["append [b'over']"]


def test_an_alarm_rings_at_its_time_and_not_before() -> None:
    async def main() -> list[str]:
        log: list[str] = []
        alarm = Alarm(lambda: log.append(f"rings {system.now() >= due}"))
        due = system.now() + 0.02
        alarm.set(due + 60)
        alarm.set(due)
        alarm.set(due + 30)
        await until(lambda: log, "the alarm")
        alarm.set(system.now() + 0.001)
        alarm.close()
        await asyncio.sleep(0.01)
        return log

    if sys.platform == "linux":
        assert asyncio.run(main()) == ["rings True"]


def test_an_alarm_of_another_clock_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[str]:
        log: list[str] = []
        alarm = Alarm(lambda: log.append("rings"))
        monkeypatch.setattr(system, "now", lambda: 1.0)
        for due in (2.0, 1.5):
            alarm.set(due)
            await asyncio.sleep(0.01)
        alarm.close()
        return log

    assert asyncio.run(main()) == []


def test_a_lost_peer_is_reported_once_to_a_process_that_watches_it() -> None:
    async def main() -> list[str]:
        recorder = Recorder()
        recorder.host.down(2)
        recorder.host.step(lambda out: out.watch(2))
        recorder.host.down(2)
        recorder.host.down(2)
        recorder.lost.add(3)
        recorder.host.step(lambda out: out.watch(3))
        recorder.host.step(lambda out: out.watch(4))
        recorder.host.step(lambda out: out.unwatch(4))
        recorder.host.down(4)
        await asyncio.sleep(0)
        return recorder.log

    assert asyncio.run(main()) == ["down 2", "down 3"]


def test_nothing_happens_after_the_end_and_what_waited_for_the_disk_is_out() -> None:
    async def main() -> list[str]:
        recorder = Recorder()

        def handler(out: Outbox[Any]) -> None:
            out.append(b"last")
            out.send(2, "frame")
            out.set_timer("later", 0)

        recorder.host.step(handler)
        recorder.host.stop()
        recorder.host.step(recorder.everything)
        await asyncio.sleep(0.001)
        return recorder.log

    assert asyncio.run(main()) == ["append [b'last']", "send frame to 2"]
