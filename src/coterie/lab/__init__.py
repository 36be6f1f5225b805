"""The laboratory: worlds, judges, measurements and pictures. Nothing but its commands imports it.

Importing it in a notebook registers with IPython how runs and wait-for graphs are shown.
"""

from __future__ import annotations

import sys


def _register_with_notebook() -> None:
    """Do nothing outside IPython, which is never imported from here."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        from coterie.lab.notebook import register  # noqa: PLC0415 - for notebooks alone

        register(shell.display_formatter.formatters)


_register_with_notebook()
