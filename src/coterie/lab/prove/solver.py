"""The solver, z3, for the modules that need one; a page and its link do without."""

from importlib.util import find_spec

from coterie.errors import ConfigError

if find_spec("z3") is None:
    raise ConfigError("proofs need z3, which is not there: pip install 'coterie[prove]'")

import z3

__all__ = ["z3"]
