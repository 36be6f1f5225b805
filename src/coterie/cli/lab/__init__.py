"""The commands of the laboratory: the only ones that import `coterie.lab`."""
