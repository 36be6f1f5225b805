"""Delays from a file: read as they stand, varied by a share, and refused with the line at fault."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from coterie.errors import UsageError
from coterie.lab.simulate import (
    Matrix,
    Network,
    TrialBuilder,
    Uniform,
    parse_latency,
    read_latency,
    read_matrix,
    run_trial,
)
from coterie.lab.simulate.network import Links, check_size

EXAMPLE = Path(__file__).parents[3] / "examples" / "delays.csv"


def written(folder: Path, text: str) -> Path:
    path = folder / "delays.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_example_is_a_square_of_five_places() -> None:
    matrix = read_matrix(EXAMPLE)
    assert len(matrix.rows) == 5
    assert matrix.rows[0][4] == matrix.rows[4][0] == 115
    assert run_trial(TrialBuilder(algorithm="maekawa", latency=matrix)(1), 1).stopped == "done"


def test_a_file_is_a_matrix_in_text(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeff# seconds\n1, 40  # home\n\n50,2.5\n")
    assert read_latency(str(path)) == Matrix(((1, 40), (50, 2.5)))
    assert read_latency(f"{path}~0.1") == Matrix(((1, 40), (50, 2.5)), 0.1)
    assert parse_latency("matrix:1,40;50,2.5~0.1") == Matrix(((1, 40), (50, 2.5)), 0.1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "1,2,3\n4,5,6\n",
            r"delays\.csv, line 1: the matrix is not square: it has 2 rows, and this",
        ),
        ("1,2\n4,5,6\n", r"line 2: the matrix is not square: .* has 3 delays"),
        ("1,2\n\n4,-5\n", r"line 3: a delay must be at least 0, got -5"),
        ("1,far\n4,5\n", r"line 1: expected a delay such as 40, got 'far'"),
        ("1,nan\n4,5\n", r"line 1: expected a delay such as 40, got 'nan'"),
        ("1,2,\n4,5\n", r"line 1: expected a delay such as 40, got ''"),
        ("# nothing\n", r"expected rows of delays such as 1,40, found none"),
    ],
)
def test_an_error_names_the_file_the_line_and_what_is_wrong(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        read_matrix(written(tmp_path, text))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the delays in .*none\.csv: No such file"):
        read_latency(str(tmp_path / "none.csv"))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="it is not text in UTF-8"):
        read_matrix(binary)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_the_processes_of_a_file_are_dealt_evenly(size: int) -> None:
    with pytest.raises(UsageError, match=f"delays for 5 places: .* a multiple of it, got {size}"):
        TrialBuilder(algorithm="maekawa", size=size, latency=read_matrix(EXAMPLE))(1)
    check_size(read_matrix(EXAMPLE), 10)
    check_size(Matrix(((1, 9), (9, 1))), 7)  # regions written in place may be of any size


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1~0.1", "only a matrix takes ~SHARE"),
        ("matrix:1,9;9,1~2", "jitter must be a share between 0 and 1, got 2"),
        ("matrix:1,9;9,1~much", "expected a number of time units"),
    ],
)
def test_a_jitter_is_a_share_and_belongs_to_a_matrix(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_latency(text)


def test_text_alone_opens_no_file() -> None:
    """A page may ask for any text; only the commands follow the name of a file."""
    assert read_latency(str(EXAMPLE)) == read_matrix(EXAMPLE)
    assert read_latency("uniform:1,2") == Uniform(1, 2)
    with pytest.raises(UsageError, match="expected a number of time units or NAME:NUMBERS"):
        parse_latency(str(EXAMPLE))


def test_each_delay_varies_by_its_share_and_no_more() -> None:
    draw = Matrix(((1, 40), (40, 1)), 0.25).sampler(Random(1))
    far = [draw(1, 2) for _ in range(2000)]
    assert 30 <= min(far) < 30.5
    assert 49.5 < max(far) <= 50
    near = [draw(1, 3) for _ in range(2000)]
    assert 0.75 <= min(near) <= max(near) <= 1.25


def test_with_jitter_messages_of_a_link_keep_their_order_where_that_is_asked_for() -> None:
    network = Network(Matrix(((1, 40), (40, 1)), 0.5))
    links = Links(network, fifo=True, latencies=Random(1), chances=Random(2))
    arrivals = [links.times(1, [2], now / 10)[0] for now in range(200)]
    assert arrivals == sorted(arrivals)
    loose = Links(network, fifo=False, latencies=Random(1), chances=Random(2))
    arrivals = [loose.times(1, [2], now / 10)[0] for now in range(200)]
    assert arrivals != sorted(arrivals)


def test_a_plan_with_a_file_needs_the_file_once(tmp_path: Path) -> None:
    path = written(tmp_path, "1,2\n2,1\n")
    plan = TrialBuilder(
        algorithm="centralized", size=2, latency=read_latency(str(path)), hold=Uniform(0, 1)
    )
    path.unlink()
    assert run_trial(plan(1), 1).stopped == "done"
