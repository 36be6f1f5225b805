"""Signals as on a terminal: under `nohup` or in the background some are ignored, by children too."""

from __future__ import annotations

import signal

for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        default = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
        signal.signal(number, default)
