"""What it takes to run a process on a real machine: a clock, timers, a disk, a log."""
