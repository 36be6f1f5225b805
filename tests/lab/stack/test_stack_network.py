"""The simulated network does what the name of each fault says, and else what TCP does."""

from __future__ import annotations

import asyncio

import pytest

from coterie.lab.stack.world import World
from tests.lab.stack.echo import Ear, Talk, run_alone


def test_bytes_arrive_in_order_whatever_is_joined_or_split() -> None:
    with World(1) as world:
        talk = Talk(world)

        async def speak() -> None:
            for number in range(200):
                talk.mouths[0].transport.write(b"%4d" % number)
                await asyncio.sleep(0.0001)

        talk.do(talk.caller, lambda: asyncio.ensure_future(speak()))
        world.run(world.now + 1)
        ear = talk.ears[0]
        assert bytes(ear.heard) == b"".join(b"%4d" % number for number in range(200))
        assert any(len(piece) % 4 for piece in ear.pieces), "some are split"
        assert any(len(piece) > 8 for piece in ear.pieces), "some are joined"
        assert not world.errors


def test_a_process_killed_as_it_sends_has_sent_that_and_does_no_more() -> None:
    with World(1) as world:
        talk = Talk(world)
        talk.caller.die_after_sends(1)

        def speak() -> None:
            for word in (b"one ", b"two ", b"three"):
                talk.mouths[0].transport.write(word)

        talk.do(talk.caller, speak)
        world.run(world.now + 1)
        assert talk.ears[0].heard == b"one two "
        assert not talk.caller.is_alive


def test_a_black_hole_holds_back_one_direction_until_it_is_open() -> None:
    with World(1) as world:
        talk = Talk(world)
        world.network.block("a", "b")
        talk.say(b"there")
        talk.do(talk.listener, lambda: talk.ears[0].transport.write(b"back"))
        world.run(world.now + 5)
        assert not talk.ears[0].heard
        assert talk.mouths[0].heard == b"back"
        world.network.unblock("a", "b")
        world.run(world.now + 1)
        assert talk.ears[0].heard == b"there"


def test_what_is_in_flight_when_a_way_closes_is_held_back() -> None:
    with World(1) as world:
        talk = Talk(world)
        world.network.delay = 0.1
        talk.say(b"x")
        world.run(world.now + 0.05)
        world.network.block("a", "b")
        world.run(world.now + 5)
        assert not talk.ears[0].heard
        world.network.heal()
        world.run(world.now + 2)
        assert talk.ears[0].heard == b"x"


@pytest.mark.parametrize("opens", [0.03, 0.06, 0.2])
def test_what_was_in_flight_comes_before_what_is_sent_into_a_closed_way(opens: float) -> None:
    for seed in range(20):
        with World(seed) as world:
            talk = Talk(world)
            world.network.delay = 0.1
            start = world.now
            talk.say(b"1")
            world.run(start + 0.02)
            world.network.block("a", "b")
            talk.say(b"2")
            world.run(start + opens)
            world.network.unblock("a", "b")
            talk.say(b"3")
            world.run(start + 0.05 + opens)
            world.network.block("a", "b")
            talk.say(b"4")
            world.run(start + 1)
            world.network.heal()
            world.run(start + 5)
            assert talk.ears[0].heard == b"1234"


def test_stalled_dials_concern_the_connections_of_one_caller_only() -> None:
    with World(1) as world:
        talk = Talk(world)
        world.network.stall_dials("a", "b")
        talk.do(talk.listener, lambda: talk.ears[0].transport.write(b"back"))
        talk.say(b"there")
        world.run(world.now + 5)
        assert not talk.ears[0].heard
        assert not talk.mouths[0].heard
        world.network.stalled_dials.clear()
        world.network.stall_dials("b", "a")
        world.network.release()
        world.run(world.now + 2)
        assert talk.ears[0].heard == b"there"
        assert talk.mouths[0].heard == b"back"


def test_one_stalled_connection_leaves_others_alone() -> None:
    with World(1) as world:
        talk = Talk(world)
        second = world.start("a", "a2", 1, talk.call)
        world.run(world.now + 1)
        world.network.between("a", "b")[0].is_stalled = True
        talk.say(b"first")
        talk.do(second, lambda: talk.mouths[1].transport.write(b"second"))
        world.run(world.now + 2)
        assert [bytes(ear.heard) for ear in talk.ears] == [b"", b"second"]


def test_a_reset_is_told_at_both_ends() -> None:
    with World(1) as world:
        talk = Talk(world)
        world.network.between("a", "b")[0].reset()
        world.run(world.now + 1)
        for end in (talk.ears[0], talk.mouths[0]):
            assert end.events == ["made", "ConnectionResetError"]


def test_an_end_comes_after_the_data() -> None:
    with World(1) as world:
        talk = Talk(world)

        def part() -> None:
            talk.mouths[0].transport.write(b"last words")
            talk.mouths[0].transport.close()

        talk.do(talk.caller, part)
        world.run(world.now + 1)
        assert talk.ears[0].heard == b"last words"
        assert talk.ears[0].events == ["made", "eof", "lost"]
        assert talk.mouths[0].events == ["made", "lost"]
        assert not world.network.connections


def test_bytes_of_a_former_life_arrive_after_a_restart() -> None:
    with World(1) as world:
        talk = Talk(world)
        world.network.between("a", "b")[0].is_stalled = True
        talk.say(b"of the first life")
        world.run(world.now + 0.01)
        talk.caller.die()
        world.start("a", "a", 2, talk.call)
        world.run(world.now + 1)
        assert len(talk.ears) == 2
        assert not talk.ears[0].heard
        connection = next(iter(world.network.connections.values()))
        connection.is_stalled = False
        connection.release()
        world.run(world.now + 1)
        assert talk.ears[0].heard == b"of the first life"
        assert talk.ears[0].events == ["made", "eof", "lost"]


def test_nothing_is_heard_of_a_machine_without_power_until_it_is_back() -> None:
    with World(1) as world:
        talk = Talk(world)
        world.machines["a"].power_off()
        talk.do(talk.listener, lambda: talk.ears[0].transport.write(b"hello?"))
        world.run(world.now + 5)
        assert talk.ears[0].events == ["made"]
        world.machines["a"].power_on()
        talk.do(talk.listener, lambda: talk.ears[0].transport.write(b"hello?"))
        world.run(world.now + 5)
        assert talk.ears[0].events == ["made", "ConnectionResetError"]


def test_a_killed_process_that_had_unread_bytes_resets_its_peer() -> None:
    with World(1) as world:
        talk = Talk(world)
        talk.listener.pause(world.now + 1)
        talk.say(b"never read")
        world.run(world.now + 0.5)
        talk.listener.die()
        world.run(world.now + 1)
        assert talk.mouths[0].events == ["made", "ConnectionResetError"]


def test_a_paused_process_is_connected_to_and_reads_later() -> None:
    with World(1) as world:
        talk = Talk(world)
        talk.listener.pause(world.now + 5)
        second = world.start("a", "a2", 1, talk.call)
        world.run(world.now + 1)
        assert len(talk.mouths) == 2, "its kernel accepts"
        talk.do(second, lambda: talk.mouths[1].transport.write(b"patience"))
        world.run(world.now + 1)
        assert len(talk.ears) == 1
        world.run(world.now + 5)
        assert talk.ears[1].heard == b"patience"


def test_a_full_window_pauses_the_writer_until_the_reader_reads() -> None:
    with World(1) as world:
        talk = Talk(world)
        talk.do(talk.listener, talk.ears[0].transport.pause_reading)
        world.run(world.now + 0.1)
        data = bytes(range(256)) * 2048
        talk.say(data)
        world.run(world.now + 1)
        mouth = talk.mouths[0]
        assert mouth.events == ["made", "pause"]
        assert mouth.transport.get_write_buffer_size() == len(data) - 256 * 1024
        talk.do(talk.listener, talk.ears[0].transport.resume_reading)
        world.run(world.now + 1)
        assert mouth.events == ["made", "pause", "resume"]
        assert talk.ears[0].heard == data


@pytest.mark.parametrize("fault", ["nobody listens", "refusing"])
def test_connections_are_refused(fault: str) -> None:
    with World(1) as world:
        Talk(world)
        port = 1
        if fault == "refusing":
            world.network.refusing.add("b")
        else:
            port = 2

        async def call(_: object) -> None:
            with pytest.raises(ConnectionRefusedError):
                await asyncio.get_running_loop().create_connection(lambda: Ear(world), "b", port)

        assert run_alone(world, call).error is None


@pytest.mark.parametrize("direction", [("m", "b"), ("b", "m")])
def test_a_call_through_a_black_hole_times_out_and_a_later_one_gets_through(
    direction: tuple[str, str],
) -> None:
    with World(1) as world:
        talk = Talk(world)
        world.machine("m")
        world.network.block(*direction)

        async def call(_: object) -> None:
            loop = asyncio.get_running_loop()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3):
                    await loop.create_connection(lambda: Ear(world), "b", 1)
            world.network.heal()
            await loop.create_connection(lambda: Ear(world), "b", 1)

        assert run_alone(world, call).error is None
        assert len(talk.ears) == 2
