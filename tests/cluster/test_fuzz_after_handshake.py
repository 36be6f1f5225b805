"""Random frames of those that were let in end in a fault of the sender, and nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.cluster.fuzz_frames import fuzz

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = range(20)


def test_no_frame_of_any_kind_from_any_role_makes_a_node_or_a_program_stumble(
    tmp_path: Path,
) -> None:
    handled = [asyncio.run(fuzz(seed, tmp_path)) for seed in SEEDS]
    by_node, by_program = map(sum, zip(*handled, strict=True))
    assert by_node > 1000
    assert by_program > 1000
