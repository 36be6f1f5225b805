"""A voting node: the voter of the leased lock, its storage, its reports and its metrics."""
