"""What locks need of this machine: a steady clock, a scheduler that lets them run, descriptors, a disk."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

from coterie.cli.doctor.diagnosis import Diagnosis
from coterie.cluster.runtime.descriptors import limit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RATE_SECONDS = 0.5  # that two clocks are compared for
RATE_BAD = 0.005  # leases allow for this error
RATE_ODD = 0.0006  # what the usual correction by NTP stays below
PAUSES = 200
PAUSE_SECONDS = 0.001
LATE_SECONDS_MAX = 0.1
DESCRIPTORS_FEW = 1024
SYNCS = 16
BLOCK_BYTES = 4096
SYNC_SECONDS_MAX = 0.1


def look_at_machine() -> Iterable[Diagnosis]:
    """Look at what every program needs."""
    yield look_at_clock()
    yield look_at_pauses()
    yield look_at_descriptors()


def look_at_clock() -> Diagnosis:
    """Compare the clock that leases are counted by with the hardware's, which nothing corrects."""
    raw = getattr(time, "CLOCK_MONOTONIC_RAW", None)
    if raw is None:
        return Diagnosis("clock rate", "look", "this system has no second clock to compare with")
    began = time.monotonic(), time.clock_gettime(raw)
    time.sleep(RATE_SECONDS)
    passed, passed_raw = time.monotonic() - began[0], time.clock_gettime(raw) - began[1]
    return judge_rate(passed / passed_raw - 1)


def judge_rate(error: float) -> Diagnosis:
    """Judge by how much a clock runs faster than another one."""
    found = f"{error * 1e6:+.0f} parts in a million beside the hardware's clock"
    if abs(error) > RATE_BAD:
        advice = (
            "leases are not safe here: mend the synchronisation of the clock, or raise rate-error"
        )
        return Diagnosis("clock rate", "bad", found, advice)
    if abs(error) > RATE_ODD:
        return Diagnosis(
            "clock rate", "look", found, "the clock is being corrected hard; look at NTP"
        )
    return Diagnosis("clock rate", "good", found)


def look_at_pauses() -> Diagnosis:
    """Sleep many times for a moment, and see how late the latest awakening is."""
    latest = 0.0
    for _ in range(PAUSES):
        began = time.monotonic()
        time.sleep(PAUSE_SECONDS)
        latest = max(latest, time.monotonic() - began - PAUSE_SECONDS)
    found = f"at most {latest * 1000:.1f} ms late in {PAUSES} awakenings"
    if latest <= LATE_SECONDS_MAX:
        return Diagnosis("pauses", "good", found)
    return Diagnosis(
        "pauses", "look", found, "the machine is overloaded or suspended: choose a longer lease"
    )


def look_at_descriptors() -> Diagnosis:
    """Look at how many connections this process could have."""
    count = limit()
    found = f"{count:,} may be open"
    if count >= DESCRIPTORS_FEW:
        return Diagnosis("descriptors", "good", found)
    return Diagnosis(
        "descriptors", "look", found, "a node needs one for each program: ulimit -n 65536"
    )


def look_at_disk(folder: Path) -> Diagnosis:
    """Write and sync some blocks in a folder of a node, as a vote does."""
    what = f"disk at {folder}"
    durations = []
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            for _ in range(SYNCS):
                began = time.monotonic()
                file.write(bytes(BLOCK_BYTES))
                os.fsync(file.fileno())
                durations.append(time.monotonic() - began)
    except OSError as error:
        advice = "a node saves its votes there before it gives them"
        return Diagnosis(what, "bad", error.strerror or str(error), advice)
    middle, longest = statistics.median(durations) * 1000, max(durations)
    found = f"a sync takes {middle:.1f} ms, {longest * 1000:.1f} ms at most"
    if longest <= SYNC_SECONDS_MAX:
        return Diagnosis(what, "good", found)
    return Diagnosis(
        what, "look", found, "every vote waits for a sync: use a faster or less busy disk"
    )
