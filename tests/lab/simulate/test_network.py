"""How messages travel."""

from __future__ import annotations

from random import Random
from statistics import mean, median

import pytest

from coterie.errors import UsageError
from coterie.lab.simulate import (
    Constant,
    Exponential,
    Latency,
    LogNormal,
    Matrix,
    Network,
    Simulation,
    Uniform,
    parse_latency,
)
from coterie.lab.simulate.network import Links
from tests.lab.simulate.toys import OrderedPostman, Postman

JITTER = Network(latency=Uniform(0.5, 1.5))


def delays(latency: Latency, count: int = 4000) -> list[float]:
    draw = latency.sampler(Random(1))
    return [draw(1, 2) for _ in range(count)]


def deliver(postman: type[Postman], network: Network, notes: int = 50) -> Postman:
    """Send notes from 1 to 2 and give the receiver."""
    receiver = postman(2)
    Simulation([postman(1, notes), receiver], network=network).run()
    return receiver


def test_each_latency_model_draws_from_its_distribution() -> None:
    assert set(delays(Constant(2.5))) == {2.5}
    uniform = delays(Uniform(1, 3))
    assert 1 <= min(uniform) < 1.1
    assert 2.9 < max(uniform) <= 3
    assert mean(delays(Exponential(4))) == pytest.approx(4, rel=0.1)
    assert median(delays(LogNormal(3, 0.5))) == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("latency", [Uniform(0.5, 1.5), Exponential(1), Matrix([[1, 40], [50, 2]])])
def test_a_message_to_many_arrives_as_one_sent_to_each_in_turn(
    latency: Latency, fifo: bool
) -> None:
    network, receivers = Network(latency), [3, 1, 3, 4]
    many, mailed, each = (Links(network, fifo, Random(1), Random(2)) for _ in range(3))
    for now in (0.0, 0.25, 3.0):
        alone = [each.arrivals(2, receiver, now) for receiver in receivers]
        times = many.times(2, receivers, now)
        assert [[time] for time in times] == alone
        letters = [(time, 2, to, "hello") for time, to in zip(times, receivers, strict=True)]
        assert mailed.mail(2, receivers, "hello", now) == letters


def test_a_matrix_gives_the_delay_from_region_to_region() -> None:
    draw = Matrix([[1, 40], [50, 2]]).sampler(Random(1))
    assert [draw(1, 3), draw(1, 2), draw(2, 1), draw(4, 2)] == [1, 40, 50, 2]


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("2", Constant(2)),
        ("constant:2.5", Constant(2.5)),
        ("uniform:0.5,1.5", Uniform(0.5, 1.5)),
        ("exponential:1", Exponential(1)),
        ("lognormal:1,0.4", LogNormal(1, 0.4)),
        ("matrix:1,40;40,1", Matrix(((1, 40), (40, 1)))),
    ],
)
def test_latency_models_are_read_from_text(text: str, model: Latency) -> None:
    assert parse_latency(text) == model


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gamma:1", "choose from: constant, exponential, lognormal, matrix, uniform"),
        ("uniform:1", "expected uniform:LOW,HIGH"),
        ("fast", "expected a number of time units or NAME:NUMBERS"),
        ("constant:nan", "expected a number of time units or NAME:NUMBERS"),
        ("uniform:2,1", "0 <= LOW <= HIGH, got 2,1$"),
        ("-1", "at least 0"),
        ("exponential:0", "greater than 0"),
        ("lognormal:0,1", "needs MEDIAN > 0 and SIGMA >= 0, got 0,1$"),
        ("matrix:1,2;3", "as many delays in each row"),
        ("matrix:1,-2;3,1", "at least 0"),
    ],
)
def test_a_bad_latency_is_named_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_latency(text)


def test_a_probability_lies_between_0_and_1() -> None:
    with pytest.raises(UsageError, match="loss must be a probability between 0 and 1"):
        Network(loss=1.5)
    with pytest.raises(UsageError, match="duplication must be a probability between 0 and 1"):
        Network(duplication=-0.1)


def test_links_keep_the_order_if_the_process_declares_it() -> None:
    assert deliver(OrderedPostman, JITTER).got == list(range(1, 51))


def test_links_mix_up_the_order_otherwise() -> None:
    got = deliver(Postman, JITTER).got
    assert sorted(got) == list(range(1, 51))
    assert got != sorted(got)


def test_the_network_overrules_what_the_process_declares() -> None:
    ordered = Network(latency=JITTER.latency, fifo=True)
    unordered = Network(latency=JITTER.latency, fifo=False)
    assert deliver(Postman, ordered).got == list(range(1, 51))
    assert deliver(OrderedPostman, unordered).got != list(range(1, 51))


def test_loss_takes_messages_and_duplication_repeats_them() -> None:
    assert deliver(Postman, Network(loss=1)).got == []
    assert 20 < len(deliver(Postman, Network(loss=0.5), notes=100).got) < 80
    assert deliver(Postman, Network(duplication=1), notes=2).got == [1, 1, 2, 2]
    assert deliver(OrderedPostman, Network(JITTER.latency, duplication=1), 9).got == sorted(
        2 * list(range(1, 10))
    )
