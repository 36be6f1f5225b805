"""Exploration with a clock: every run of processes that rely on bounds of time, tick by tick."""

from coterie.lab.explore.timed.check import check_timed

__all__ = ["check_timed"]
