"""Engines: each package grants locks by other means. `SCHEMES` in `coterie.locks.url` registers them."""
