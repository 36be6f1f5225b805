"""The tables behind the explorer: states, messages and steps as small integers in arrays."""
