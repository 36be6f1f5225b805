"""Where the trials of a campaign run: here, in processes of this machine, or on a cluster of Dask."""

from __future__ import annotations

import contextlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.cli.lab.workers import workers
from coterie.errors import ConfigError, Unavailable, UsageError
from coterie.locks.url import without_password

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

DASK = "dask://"
CONNECT_SECONDS_MAX = 10


class Helpers(NamedTuple):
    """What runs the trials; None where this process does."""

    executor: Executor | None
    workers: int  # that run a task each


@contextlib.contextmanager
def helpers(jobs: int, url: str | None) -> Iterator[Helpers]:
    """Provide what the options `--jobs` and `--executor` ask for."""
    if url is not None:
        if jobs > 1:
            raise UsageError("--jobs starts processes here and --executor uses others: give one")
        with _dask(url) as found:
            yield found
    elif jobs > 1:
        with workers(jobs) as pool:
            yield Helpers(pool, jobs)
    else:
        yield Helpers(None, 1)


@contextlib.contextmanager
def _dask(url: str) -> Iterator[Helpers]:
    """Connect to the scheduler of a cluster; raises `Unavailable` or `ConfigError`."""
    address = url.removeprefix(DASK)
    if address == url or not address:
        raise UsageError(f"--executor: expected {DASK}host:8786, got {without_password(url)!r}")
    try:
        from distributed import Client  # noqa: PLC0415 - heavy, and rarely used
    except ModuleNotFoundError:
        raise ConfigError(
            f"{DASK} needs distributed, which is not there: pip install 'coterie[dask]'"
        ) from None
    try:
        client = Client(f"tcp://{address}", timeout=CONNECT_SECONDS_MAX, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Unavailable(f"dask at {address}: {error}") from None
    with client:
        _check(address, client)
        count = sum(client.nthreads().values())
        yield Helpers(client.get_executor(pure=False), count)


def _check(address: str, client: Any) -> None:
    """Refuse workers that would run other code than this: their results could not be had again."""
    ours = version("coterie")
    # A function of the standard library: each worker has it, whether or not it has coterie.
    theirs = client.run(version, "coterie", on_error="return")
    if not theirs:
        raise Unavailable(f"dask at {address}: it has no workers")
    for worker, found in theirs.items():
        if found != ours:
            has = "no coterie" if isinstance(found, Exception) else f"coterie {found}"
            raise ConfigError(
                f"dask at {address}: the worker {worker} has {has}; install coterie {ours} on all workers"
            )
