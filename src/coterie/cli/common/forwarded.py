"""Which signals a command passes on to the program that it runs."""

import signal

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
FORWARDED = (*ENDING, signal.SIGUSR1, signal.SIGUSR2)


def not_ignored() -> list[int]:
    """Return the forwarded signals, except those that our caller has us ignore, as nohup does."""
    return [number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
