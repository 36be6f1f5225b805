"""`coterie serve`: a voting node."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from coterie import system
from coterie.cli.common.stdin import on_end_of_input
from coterie.cluster.change.spare import Location, spare_config
from coterie.cluster.classic.node import Classic, Program
from coterie.cluster.membership.config import Config, convert, load
from coterie.cluster.node import Node
from coterie.cluster.runtime import descriptors
from coterie.cluster.runtime.logs import log_to_stderr
from coterie.cluster.url import make_visit
from coterie.cluster.wire.address import PORT, parse_address, parse_metrics_address
from coterie.errors import ConfigError, CoterieError, UsageError
from coterie.locks.duration import duration
from coterie.system.aio import new_event_loop, unless

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.security import Security

    Failed: TypeAlias = Callable[[CoterieError], None]  # is told why a node votes no more
    Nodes: TypeAlias = Callable[[Failed], AbstractAsyncContextManager[object]]

QUIET_SECONDS = 60.0  # between two lines that no connection can be accepted

logger = logging.getLogger("coterie.cluster")


@click.command("serve")
@click.option(
    "--config",
    "path",
    metavar="FILE",
    help="Cluster file; default: COTERIE_CONFIG, then coterie.toml.",
)
@click.option(
    "--node", envvar="COTERIE_NODE", metavar="NAME", help="Which node of the cluster file to run."
)
@click.option(
    "--dev",
    type=click.IntRange(1, 31),
    metavar="N",
    help="Run N nodes on loopback, without a file.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"First port with --dev, {PORT} by default; 0: any.",
)
@click.option("--lease", type=duration, metavar="DUR", help="Lease with --dev, 10s by default.")
@click.option("--data", metavar="DIR", envvar="COTERIE_DATA", help="Where a node keeps its data.")
@click.option(
    "--join",
    metavar="URL",
    help="Join the running cluster at this URL, or at addresses such as a:7420,b:7420, as a spare.",
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    help=f"Where the node listens with --join, 0.0.0.0:{PORT} by default.",
)
@click.option(
    "--metrics",
    metavar="ADDRESS",
    help="Where the node serves its metrics with --join; a port alone: on loopback.",
)
@click.option(
    "--open",
    "is_open",
    is_flag=True,
    help="Accept other machines without a secret or TLS, on a network that is all yours.",
)
@click.option(
    "--new-cluster",
    is_flag=True,
    help="Vote at once at the first start. You promise that no program holds a lock.",
)
@click.option(
    "--until-eof", is_flag=True, help="Stop when standard input ends, as when the parent dies."
)
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log on stderr.",
)
@click.option(
    "--web",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Show the whole cluster in the browser, at this port of this machine; 0: any.",
)
@click.option("-q", "--quiet", is_flag=True, help="Log warnings only.")
def command(
    *,
    path: str | None,
    node: str | None,
    dev: int | None,
    port: int | None,
    lease: float | None,
    data: str | None,
    join: str | None,
    listen: str | None,
    metrics: str | None,
    is_open: bool,
    new_cluster: bool,
    until_eof: bool,
    log: str,
    web: int | None,
    quiet: bool,
) -> None:
    """Run a voting node until SIGTERM or SIGINT.

    The cluster file, coterie.toml, names all nodes. --dev N needs no file: it runs N nodes on
    loopback in one process, for a trial.

    --join needs no file either: the node learns the configuration from the running nodes, waits as a
    spare, and votes after coterie cluster add or replace has made it a voter. Start it with the same
    command line after that, too.
    """
    log_to_stderr(log, verbose=not quiet)
    descriptors.raise_limit()
    if join is not None:
        if path or dev or new_cluster or port is not None or lease is not None:
            raise UsageError(
                "--join takes the cluster as it is: leave out --config, --dev and theirs"
            )
        _Joined(node, join, listen, metrics, data, is_open).run(web, until_eof=until_eof)
        return
    if listen is not None or metrics is not None:
        raise UsageError("--listen and --metrics need --join; otherwise the cluster file sets them")
    if dev is None and (port is not None or lease is not None):
        raise UsageError("--port and --lease need --dev; otherwise the cluster file sets them")
    if dev is not None:
        if path or node:
            raise UsageError("--dev takes no cluster file: leave out --config and --node")
        _run_dev(dev, port, lease, data, web, until_eof=until_eof)
        return
    config = load(path, {"COTERIE_DATA": data} if data else None)
    name = _choose(config, node, is_open=is_open)
    nodes = partial(_node, config, name, new_cluster=new_cluster)
    pages = _Pages(f"coterie:{path or ''}", web)
    run(_serve(_found(nodes), pages, lambda: None, until_eof=until_eof))


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop if it is installed, otherwise on asyncio's own event loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)


class AcceptErrors:
    """Writes a line where no connection can be accepted, and leaves all else to the event loop.

    The event loop pauses for a second and tries again; but it logs a traceback for each of a hundred
    callers, each time.
    """

    def __init__(self) -> None:
        """Begin with nothing logged."""
        self._quiet_until = 0.0

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take an error that nothing has caught."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in descriptors.EXHAUSTED:
            loop.default_exception_handler(context)
            return
        if system.now() >= self._quiet_until:
            self._quiet_until = system.now() + QUIET_SECONDS
            logger.warning(
                "connections have to wait: %(reason)s; at most %(limit)d files and connections may be open here"
                " (ulimit -n)",
                {"reason": error.strerror, "limit": descriptors.limit()},
                extra={"event": "descriptors-exhausted"},
            )


class _Pages(NamedTuple):
    """The dashboard of the cluster that a URL names, at a port; None: there is none."""

    url: str
    port: int | None

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve the pages beside the node."""
        if self.port is None:
            yield
            return
        from coterie import dashboard  # noqa: PLC0415 - an extra

        dashboard.require()
        from coterie.dashboard.app import make_app  # noqa: PLC0415 - as above
        from coterie.dashboard.monitor import Monitor  # noqa: PLC0415 - as above
        from coterie.dashboard.routes import dashboard_routes  # noqa: PLC0415 - as above
        from coterie.dashboard.server import (  # noqa: PLC0415 - as above
            TOKEN_BYTES,
            WebServer,
            address_file,
        )

        monitor, token = Monitor(self.url), system.secret(TOKEN_BYTES).hex()
        server = WebServer(make_app(dashboard_routes(monitor)), self.port, token=token)
        address = server.opening_address("/cluster")
        with contextlib.ExitStack() as stack:
            if sys.stderr.isatty():
                click.echo(f"dashboard at {address}", err=True)
            else:  # a log, which others read as well
                file = stack.enter_context(address_file(address))
                click.echo(
                    f"dashboard at {server.address('/cluster')}, with the token in {file}", err=True
                )
            serving = asyncio.create_task(server.serve(), name="coterie dashboard")
            try:
                yield
            finally:
                monitor.close()
                server.stop()
                await serving


class _Joined(NamedTuple):
    """A node that joins a running cluster, as the command line describes it."""

    node: str | None
    join: str
    listen: str | None
    metrics: str | None
    data: str | None
    is_open: bool

    @property
    def url(self) -> str:
        """The cluster."""
        return self.join if "://" in self.join else f"coterie://{self.join}"

    def place(self) -> Location:
        """Return where the node runs."""
        if self.node is None:
            raise UsageError("give the node that joins a name, with --node")
        if self.data is None:
            raise UsageError(
                "a node that joins a running cluster needs a data directory: give it one with --data"
            )
        return Location(
            self.node,
            parse_address(self.listen or f"0.0.0.0:{PORT}"),
            Path(self.data).absolute() / self.node,
            parse_metrics_address(self.metrics) if self.metrics else None,
        )

    def run(self, web: int | None, *, until_eof: bool) -> None:
        """Run the node until a signal."""
        found = self._find(self.place())
        run(_serve(found, _Pages(self.url, web), lambda: None, until_eof=until_eof))

    async def _find(self, place: Location) -> Nodes:
        visit = make_visit(self.url)
        if not self.is_open:
            check_closed(place.node, place.listen, visit.security)
        config = await spare_config(place, visit)
        return partial(_node, config, place.node, new_cluster=False)


def check_closed(node: str, listen: Address, security: Security) -> None:
    """Raise `ConfigError` if programs of other machines could take part that have proven nothing."""
    if security.is_open and not listen.is_loopback:
        raise ConfigError(
            f"node {node!r} listens on {listen}, where other machines reach it, and has neither a secret nor"
            " TLS: set secret-file (coterie secret makes one) or [tls]; or say --open if all that"
            " reaches it may take part"
        )


def _choose(config: Config, node: str | None, *, is_open: bool) -> str:
    names = [member.name for member in config.membership.members]
    if node is None and len(names) > 1:
        raise UsageError(f"say which node this is with --node, one of: {', '.join(names)}")
    name = names[0] if node is None else node
    config.membership.voter(name)
    if not is_open:
        check_closed(name, config.options(name).listen, config.security)
    return name


async def _found(nodes: Nodes) -> Nodes:
    return nodes


async def _serve(
    finding: Coroutine[Any, Any, Nodes],
    pages: _Pages,
    ready: Callable[[], None],
    *,
    until_eof: bool,
) -> None:
    """Run nodes until a signal; it also ends a node that waits for the cluster that it joins."""
    over = asyncio.Event()
    failures: list[CoterieError] = []

    def fail(failure: CoterieError) -> None:
        failures.append(failure)
        over.set()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(AcceptErrors().handle)
    async with contextlib.AsyncExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, over.set)
            stack.callback(loop.remove_signal_handler, number)
        if until_eof:
            on_end_of_input(over.set)
        nodes = await unless(over, finding)
        if nodes is None:
            return
        await stack.enter_async_context(pages.served())  # first: a port that is taken ends it here
        await stack.enter_async_context(nodes(fail))
        ready()
        await over.wait()
        if failures:
            raise failures[0]


@contextlib.asynccontextmanager
async def _node(
    config: Config, name: str, failed: Failed, *, new_cluster: bool
) -> AsyncIterator[None]:
    """Run one node of a configuration."""
    node: Node | Classic
    if config.membership.algorithm is not None:
        node = Classic(config, name, Program(failure=failed))
    else:
        node = Node(config, name, new_cluster=new_cluster, on_failure=failed)
    await node.start()
    try:
        yield
    finally:
        await node.stop()


def _run_dev(
    size: int,
    port: int | None,
    lease: float | None,
    data: str | None,
    web: int | None,
    *,
    until_eof: bool,
) -> None:
    from coterie.testing import nodes  # noqa: PLC0415 - not where a cluster file names the nodes

    document = nodes.local_document(
        nodes.node_names(size),
        PORT if port is None else port,
        cluster="dev",
        lease=10.0 if lease is None else lease,
        data=data,
    )
    config = convert(document)
    url = nodes.url_of(config)
    ready = partial(_introduce, url, size)
    running = _found(partial(nodes.running, config))
    run(_serve(running, _Pages(url, web), ready, until_eof=until_eof))


def _introduce(url: str, nodes: int) -> None:
    """Print the URL, and on stderr what to do with it."""
    click.echo(url)
    click.echo(
        f"{nodes} nodes are voting. In another terminal:\n"
        f"  export COTERIE_URL={url}\n"
        "  coterie lock nightly -- echo mine\n"
        "  coterie status",
        err=True,
    )
