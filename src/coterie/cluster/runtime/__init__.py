"""What it takes to run a process on a real machine: a host, a clock, a disk, a log."""
