"""A driver for tooz, the coordination library of OpenStack: `get_coordinator("coterie+etcd://host:2379", b"me")`.

tooz finds it by its entry point; nothing here is imported by programs. It stands on `coterie.sync` alone.
"""
