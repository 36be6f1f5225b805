"""What several commands share: options, output, progress, durations, signals."""
