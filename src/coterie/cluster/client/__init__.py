"""The client side of the leased lock: how a program takes the locks of a cluster."""
