"""The command `coterie`, from the command line to its exit status."""

from __future__ import annotations

import gc
import sys


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    status = run(arguments)
    gc.freeze()  # all of it goes with the process; to look for cycles once more takes long
    sys.exit(status)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    is_lock = given[:1] == ["lock"] and sys.platform != "win32"  # where the command says why not
    status = _hold_at_once(given[1:]) if is_lock else None
    if status is not None:
        return status
    from coterie.cli.root import run_command  # noqa: PLC0415 - the way above does without Click

    return run_command(given)


def _hold_at_once(arguments: list[str]) -> int | None:
    """Run `coterie lock` if nothing is in its way, as it mostly is; None if the full command has to."""
    from coterie.cli.lock.shortcut import hold_at_once  # noqa: PLC0415 - for this one alone

    try:
        return hold_at_once(arguments)
    except KeyboardInterrupt:
        return 130
    except Exception:  # noqa: BLE001 - our own bug: show all of it, with a status that no child has
        import traceback  # noqa: PLC0415 - seldom needed

        traceback.print_exc()
        return 70
