"""Numpy without threads: import this before it, in a command that does no linear algebra.

The library of linear algebra below numpy starts a thread for each core when it is loaded, which takes
longer than the smaller checks do.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
