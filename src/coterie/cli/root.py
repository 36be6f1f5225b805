"""All subcommands of `coterie`: each is a module, loaded when it is used."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback

import click

from coterie.cli.common.imports import lasting_imports
from coterie.errors import ConfigError, CoterieError, Unavailable, UsageError
from coterie.locks.legible import one_line

# The module of each subcommand in this package, which has a `command`, and its line in `--help`.
COMMANDS = {
    "demo": ("demo", "Show a lock that survives dead nodes."),
    "tour": ("lab.tour", "Measure, verify and break the classic algorithms."),
    "lock": ("lock.command", "Hold a lock while a command runs."),
    "elect": ("elect", "Run a command on the leader only."),
    "once": ("once", "Run a command once per period, on one of many machines."),
    "serve": ("serve", "Run a voting node."),
    "secret": ("secret", "Print a random secret for a cluster."),
    "status": ("status", "Show nodes, locks, waiters or the wait-for graph."),
    "cluster": ("cluster", "Change the voters of a running cluster."),
    "break": ("break_hold", "End a hold of a lock that its program keeps."),
    "record": ("lab.record", "Record what a cluster of a classic algorithm does."),
    "doctor": ("doctor", "Check clock, disk, nodes and certificates."),
    "algorithms": ("lab.algorithms", "List the algorithms and their costs."),
    "simulate": ("lab.simulate", "Run an algorithm in virtual time."),
    "simulate-stack": ("lab.simulate_stack", "Simulate a whole cluster with the code that ships."),
    "compare": ("lab.compare", "Measure algorithms beside their formulas."),
    "distribution": ("lab.distribution", "Measure how evenly algorithms spread their work."),
    "check": ("lab.check", "Explore every interleaving of an algorithm."),
    "prove": ("lab.prove", "Prove an algorithm for every number of processes."),
    "lab": ("lab.play", "Play an algorithm by hand in the browser."),
    "clocks": ("lab.clocks", "Simulate the synchronisation of physical clocks."),
    "compare-schemes": ("lab.compare_schemes", "Measure schemes of concurrency control."),
    "compare-deadlocks": (
        "lab.compare_deadlocks",
        "Detect, avoid or prevent deadlocks, on the same jobs.",
    ),
    "deadlock": ("deadlock", "Find the deadlocks in a wait-for graph."),
    "detect": ("lab.detect", "Run the detectors of deadlocks."),
    "history": ("lab.history", "Check whether a history is serializable."),
    "audit": ("lab.audit", "Look for anomalies in another store."),
    "audit-locks": ("lab.audit_locks", "Try the locks of any library under faults."),
    "sources": ("lab.sources", "List the statements of our sources, with a verdict on each."),
}

POSIX_COMMANDS = (
    "demo",
    "lock",
    "elect",
    "once",
    "serve",
    "audit",
    "audit-locks",
)  # they pass on or wait for signals
LINUX_COMMANDS = ("simulate-stack",)  # its disk finds the names of open files in /proc

PIPE_CLOSED = 141  # as the shell shows a program that SIGPIPE has ended
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class Commands(click.Group):
    """Imports a subcommand on first use, so that each starts as fast as it can."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of that name and return its command."""
        if cmd_name not in COMMANDS:
            return None
        check_platform(cmd_name)
        home, _ = COMMANDS[cmd_name]
        with lasting_imports():
            command: click.Command = importlib.import_module(f"coterie.cli.{home}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; one that does not exist is answered with the name that is nearest."""
        if args[0] not in COMMANDS:
            import difflib  # noqa: PLC0415 - only a typing error needs it

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def check_platform(name: str) -> None:
    """Raise `ConfigError` if a subcommand needs what this operating system does not have."""
    if sys.platform == "win32" and name in POSIX_COMMANDS:
        raise ConfigError(
            f"coterie {name} needs the signals of a POSIX system, which Windows is not: run it on Linux"
            " or macOS. A program here may take locks there, with coterie.connect(URL)"
        )
    if sys.platform != "linux" and name in LINUX_COMMANDS:
        raise ConfigError(
            f"coterie {name} needs Linux: it reads /proc/self/fd, which is only there"
        )


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="coterie")
@click.pass_context
def root(context: click.Context) -> int:
    """Coordination between processes that share no memory."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        return UsageError.exit_status
    return 0


def run_command(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    try:
        status = root.main(args=arguments, prog_name="coterie", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - each has a status of its own
        return _status_of(error)
    return status if isinstance(status, int) else 0


def _status_of(error: BaseException) -> int:
    """Say in one line what went wrong, and return the exit status for it."""
    match error:
        case SystemExit():
            return (
                PIPE_CLOSED  # Click ends like this, and for nothing else, when its reader has gone
            )
        case click.ClickException():
            return _complain(_one_line(error), UsageError.exit_status)
        case click.Abort():
            return 130
        case CoterieError():
            return _complain(one_line(str(error)), error.exit_status)  # nodes may have said it
        case OSError(errno=number, filename=None) if number in FULL:
            # What is left in the buffer would fail once more when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return _complain(f"cannot write the result: {error.strerror}", Unavailable.exit_status)
        case Exception():  # our own bug: show all of it, with a status that no child has
            traceback.print_exception(error)
            return CoterieError.exit_status
        case _:
            raise error


def _complain(text: str, status: int) -> int:
    try:
        click.echo(f"coterie: {text}", err=True)
    except OSError:
        # The disk that is full has our log as well. What is left in the buffer would fail once more
        # when the interpreter ends, and take the place of the status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return status


def _one_line(error: click.ClickException) -> str:
    """Return what was wrong, and the command that says what is right."""
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        separator = "" if message.endswith("?") else ";"
        return f"{message.rstrip('.')}{separator} see {error.ctx.command_path} --help"
    return message
