"""Charts of measurements: lines over the number of processes, bars of schemes."""
