"""Real handlers on symbolic values: what they do is what the page says, in every state of the invariant."""
