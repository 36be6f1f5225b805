"""One page for each protocol that is proved, each a module with its `PAGE`, and its `LINK` if it has one."""
