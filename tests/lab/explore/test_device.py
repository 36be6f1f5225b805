"""A search on a device finds what one on the host finds, and mixes no arrays of the two.

There is a stand-in for the device here; on a real one, docs/gpu.md says what was measured.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.catalogue import find
from coterie.errors import ConfigError
from coterie.lab.explore import Progress, Verdict, check, search
from coterie.lab.explore.budget import Watch
from coterie.lab.explore.device import Gpu, open_device
from coterie.lab.explore.findings import Inspector
from coterie.lab.explore.tables import arrays, device_memo
from coterie.lab.explore.tables.arrays import Growing, namespace
from coterie.lab.explore.tables.device_index import DeviceIndex
from coterie.lab.explore.tables.device_memo import DeviceMemo
from coterie.lab.explore.tables.hashing import scatter
from coterie.lab.explore.tables.memo import PairMemo
from coterie.process import Channel
from tests.lab.explore.stand_in import StandIn, ndarray

if TYPE_CHECKING:
    from coterie.lab.explore.liveness.transitions import Transitions
    from coterie.lab.explore.tables.arrays import Rows

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="kernels need a compiler")

FIFO, UNORDERED = Channel.FIFO, Channel.UNORDERED


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Put a stand-in into the place of CuPy, and move to it at once."""
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    monkeypatch.setattr(search, "WORTH_MOVING", 1)
    return stand_in


def explore(name: str, size: int, *, variant: str | None = None, **options: Any) -> Verdict:
    found = find(name)
    return check(found.build(found.setup(size, variant, {})), **options)


@pytest.mark.parametrize(
    ("name", "size", "options"),
    [
        pytest.param("ricart-agrawala", 3, {"channel": FIFO}, marks=pytest.mark.slow),
        ("ricart-agrawala", 3, {"channel": UNORDERED}),
        pytest.param(
            "ricart-agrawala", 3, {"entries": None, "canonical": True}, marks=pytest.mark.slow
        ),
        ("lamport", 2, {"channel": UNORDERED}),
        ("maekawa", 3, {"variant": "basic"}),
        ("centralized", 3, {"losses": 1}),
        ("centralized", 3, {"variant": "failover", "crashes": 1}),
        ("suzuki-kasami", 3, {"duplicates": 1}),
        ("naimi-trehel", 3, {"losses": 1, "crashes": 1}),
        pytest.param("raymond", 4, {}, marks=pytest.mark.slow),
        ("bully", 2, {"crashes": 1, "suspicions": 1}),
        ("bully", 2, {"crashes": 1, "restarts": 1}),
        ("token-ring", 3, {}),
        ("centralized", 3, {"entries": None}),
        ("decentralized", 2, {}),
    ],
)
def test_both_sides_find_the_same(
    device: StandIn, name: str, size: int, options: dict[str, Any]
) -> None:
    here, there = (explore(name, size, device=where, **options) for where in ("cpu", "gpu"))
    here.seconds = there.seconds = 0.0
    assert there == here
    assert "claim" in device.launched


@pytest.mark.usefixtures("device")
def test_edges_that_are_kept_come_back_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that goes round leads back to states that are known: edges are needed."""
    kept: list[tuple[Any, ...]] = []

    def keep(_: Inspector, rows: Rows, transitions: Transitions, *, endless: bool) -> None:
        assert not endless
        kept.append((rows, *transitions.arrays()))

    monkeypatch.setattr(Inspector, "look_back", keep)
    for where in ("cpu", "gpu"):
        explore("token-ring", 3, device=where)
    found = []
    for rows, sources, targets, steps, _ in kept:
        states = [tuple(state) for state in rows.T.tolist()]
        edges = zip(sources.tolist(), targets.tolist(), steps.tolist(), strict=True)
        found.append(sorted((states[start], states[end], step) for start, end, step in edges))
    assert found[0] == found[1] != []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ricart-agrawala", "lamport"])
def test_small_chunks_tables_and_numbers_change_nothing(
    device: StandIn, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    known = explore(name, 3, device="gpu", channel=FIFO)
    monkeypatch.setattr(Gpu, "chunk", lambda *_: 77)
    monkeypatch.setattr(DeviceMemo, "DENSE_CELLS", 500)
    monkeypatch.setattr(DeviceIndex, "SEGMENT", 101)
    monkeypatch.setattr(DeviceIndex, "SLOTS_MIN", 8)
    found = explore(name, 3, device="gpu", channel=FIFO)
    assert (found.states, found.transitions) == (known.states, known.transitions)
    assert device.launched.count("place") > 10


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("where", ["cpu", "gpu"])
def test_numbers_grow_wider_where_there_are_too_many_states_for_the_narrow_ones(
    monkeypatch: pytest.MonkeyPatch, where: Any
) -> None:
    """What happens at 2 to the 31st, at 100."""
    known = explore("suzuki-kasami", 3, device=where, duplicates=1)
    monkeypatch.setattr(arrays, "NUMBERS_MAX", 100)
    found = explore("suzuki-kasami", 3, device=where, duplicates=1)
    found.seconds = known.seconds
    assert found == known


def test_small_levels_stay_on_the_host(device: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WORTH_MOVING", 1 << 16)
    assert explore("ricart-agrawala", 3, device="gpu").states == 2_822
    assert not device.launched


@pytest.mark.slow
def test_full_memory_ends_a_search_with_a_line_and_was_foretold(
    device: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceIndex, "SLOTS_MIN", 8)
    monkeypatch.setattr(DeviceIndex, "SEGMENT", 1 << 8)
    monkeypatch.setattr(Watch, "INTERVAL_SECONDS", 0.0)
    device.memory = 100 << 10  # for tables of values, and for some of the states
    told: list[Progress] = []
    found = explore("ricart-agrawala", 3, device="gpu", progress=told.append)
    assert 1_000 < found.states < 2_822
    assert told[0].room
    assert 0.3 < told[0].room / found.states < 2
    assert found.verdict == "unfinished"
    assert found.reason == (
        f"the memory of the GPU (stand-in, 0 GiB) ran out after {found.states:,} states;"
        " no violation was found so far"
    )


@pytest.mark.usefixtures("device")
def test_exact_states_are_compared_on_the_host_alone() -> None:
    with pytest.raises(ConfigError, match="leave out exact or device"):
        explore("ricart-agrawala", 2, device="gpu", exact=True)


def test_without_cupy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ConfigError, match=r"device gpu needs CuPy: pip install 'coterie\[gpu\]'"):
        open_device("gpu")


def test_without_a_gpu_a_line_says_so(device: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    monkeypatch.setattr(device, "getDeviceCount", fail)
    with pytest.raises(ConfigError, match="no GPU can be used here: cudaErrorNoDevice"):
        open_device("gpu")
    monkeypatch.setattr(device, "getDeviceCount", lambda: 0)
    with pytest.raises(ConfigError, match="there is no GPU"):
        open_device("gpu")


def test_no_other_device_is_known() -> None:
    assert open_device("cpu") is None
    with pytest.raises(ConfigError, match="device must be cpu or gpu, got 'tpu'"):
        open_device("tpu")  # type: ignore[arg-type]


NEAR = st.integers(0, 40)  # few enough to repeat, and all in the first slots of the table
KEYS = st.lists(st.lists(NEAR | NEAR.map(scatter) | st.integers(2**64 - 9, 2**64 - 1)), max_size=8)


@pytest.mark.slow
@given(KEYS)
def test_keys_are_numbered_in_the_order_of_their_first_appearance(batches: list[list[int]]) -> None:
    """Though the stand-in sees the last ones first."""
    xp = StandIn()
    index = DeviceIndex(Gpu(xp), np.array([7], np.uint64))
    known = {7: 0}
    for batch in batches:
        numbers, fresh = index.add(xp.asarray(np.array(batch, np.uint64)))
        new = [key for key in dict.fromkeys(batch) if key not in known]
        known |= {key: len(known) + rank for rank, key in enumerate(new)}
        assert [batch[position] for position in fresh.tolist()] == new
        assert numbers.tolist() == [known[key] for key in batch]
    assert index.span(0, index.size).tolist() == list(known)
    assert index.find(xp.asarray(np.array([3, 7, 41], np.uint64))).tolist() == [
        known.get(3, -1),
        0,
        -1,
    ]


def test_a_table_is_made_fuller_where_memory_is_short_and_says_when_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DeviceIndex, "SLOTS_MIN", 8)
    monkeypatch.setattr(DeviceIndex, "SEGMENT", 1 << 10)
    xp = StandIn(memory=1 << 20)
    index = DeviceIndex(Gpu(xp), np.zeros(0, np.uint64))
    foretold = index.room(0)

    def fill() -> None:
        for start in range(0, 100_000, 500):
            keys = [scatter(number) for number in range(start, start + 500)]
            index.add(xp.asarray(np.array(keys, np.uint64)))

    with pytest.raises(MemoryError, match="takes more than is left"):
        fill()
    assert index.size % 500 == 0
    assert 0.5 < index.size / foretold < 2


def test_values_that_python_adds_follow_to_the_device(device: StandIn) -> None:
    growing = Growing(np.int32)
    for number in range(3000):
        growing.append(number)
        if number % 700 == 0:
            positions = device.asarray(np.array([number, 0]))
            assert growing.take(positions).tolist() == [number, 0]


@pytest.mark.parametrize("cells", [0, 2_000, 1 << 28])
def test_a_memo_is_asked_once_per_pair_on_either_side(
    device: StandIn, monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    monkeypatch.setattr(DeviceMemo, "DENSE_CELLS", cells)
    monkeypatch.setattr(device_memo, "FEW", 20)
    computed: list[tuple[int, int]] = []

    def compute(first: int, second: int) -> int:
        computed.append((first, second))
        return 1000 * first + second + 1

    memo = PairMemo(compute)
    random = np.random.default_rng(7)
    for bound, kind in ((5, np.uint16), (30, np.int32), (30, np.uint16), (200, np.uint32)):
        first, second = random.integers(0, bound, (2, 500)).astype(kind)
        expected = (1000 * first.astype(int) + second + 1).tolist()
        there = (device.asarray(first), device.asarray(second))
        assert memo(*there, (bound, bound)).tolist() == expected
        assert memo(first, second, (bound, bound)).tolist() == expected
        alone = memo(np.intp(3), there[1], (bound, bound))
        assert alone.tolist() == (3000 + second.astype(int) + 1).tolist()
    assert len(computed) == len(set(computed))


def test_sets_of_bits_are_united_alike(device: StandIn) -> None:
    growing = Growing(np.uint64)
    for bits in (1, 4, 64, 1 << 63):
        growing.append(bits)
    items = np.array([0, 3, 1, 3], np.int32)
    assert growing.union(items) == growing.union(device.asarray(items)) == (1 << 63) + 5


@pytest.mark.parametrize("length", [0, 1, 16, 1000])
def test_what_is_not_zero_is_found_in_order_on_either_side(device: StandIn, length: int) -> None:
    growing = Growing(np.int32)
    for number in range(50):
        growing.append(number % 3)
    items = np.random.default_rng(3).integers(0, 50, length).astype(np.uint16)
    here, there = growing.nonzero(items), growing.nonzero(device.asarray(items))
    for expected, found in zip(here, there, strict=True):
        assert found.tolist() == expected.tolist()


def test_the_stand_in_lets_no_array_cross(device: StandIn) -> None:
    here, there = np.arange(3), device.asarray(np.arange(3))
    with pytest.raises(TypeError):
        there + here
    with pytest.raises(TypeError):
        here + there
    with pytest.raises(TypeError):
        there.take(here)
    with pytest.raises(TypeError):
        np.flatnonzero(there)
    assert isinstance(there + there, ndarray)
    assert namespace(there) is device
    assert namespace(here) is np
