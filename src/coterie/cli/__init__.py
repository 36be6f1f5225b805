"""The command `coterie`. Each subcommand is a module here, loaded when it is used."""

from __future__ import annotations

import importlib
import sys
import traceback

import click

from coterie.errors import CoterieError, UsageError

COMMANDS = (
    "demo",
    "tour",
    "lock",
    "elect",
    "serve",
    "status",
    "algorithms",
    "simulate",
    "simulate-stack",
    "compare",
    "check",
    "compare-schemes",
    "deadlock",
    "history",
)


class Commands(click.Group):
    """Imports a subcommand on first use, so that each starts as fast as it can."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of that name and return its command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(
            f"coterie.cli.{cmd_name.replace('-', '_')}"
        ).command
        return command


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


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    try:
        status = root.main(args=arguments, prog_name="coterie", standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"coterie: {_one_line(error)}", err=True)
        return UsageError.exit_status
    except click.Abort:
        return 130
    except CoterieError as error:
        click.echo(f"coterie: {error}", err=True)
        return error.exit_status
    except Exception:  # noqa: BLE001 - our own bug: show all of it, with a status that no child has
        traceback.print_exc()
        return CoterieError.exit_status
    return status if isinstance(status, int) else 0


def _one_line(error: click.ClickException) -> str:
    """Return what was wrong, and the command that says what is right."""
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message.rstrip('.')}; see {error.ctx.command_path} --help"
    return message
