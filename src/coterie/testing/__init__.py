"""For tests of programs that use coterie: locks of their own, and clusters that lose nodes on demand.

With pytest nothing has to be imported: the fixtures `coterie_file` and `coterie_cluster` are there as
soon as coterie is installed.
"""

from coterie.testing.cluster import LocalCluster

__all__ = ["LocalCluster"]
