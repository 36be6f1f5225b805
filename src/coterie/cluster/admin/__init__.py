"""Questions about a cluster: its configuration, its nodes, its locks."""
