"""Changing the voters of a running cluster: the changer on real connections, plans, and forming."""
