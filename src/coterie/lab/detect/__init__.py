"""The detectors of deadlocks, run: on one wait-for graph, and in systems that wait and go on."""
