"""Jobs that run once per period, in frameworks that start jobs: each module needs its framework, and none is imported here."""
