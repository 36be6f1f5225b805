"""Round numbers for axes."""

from __future__ import annotations

import math


def linear_ticks(low: float, high: float, count: int) -> list[float]:
    """Choose at most about `count` round numbers (1, 2 or 5 times a power of ten) in the range."""
    if high <= low:
        return [low]
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Choose the powers of ten in the range, with 2 and 5 between them if they are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [tick for tick in found if low * 0.999 <= tick <= high * 1.001]
        if len(found) > 2:
            break
    return found


def tick_text(tick: float) -> str:
    """Write a tick as people do."""
    return f"{tick:,.0f}" if abs(tick) >= 1000 else f"{tick:g}"
