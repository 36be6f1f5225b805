"""The whole stack in virtual time: nodes, programs, sockets, clocks and disks of one seed.

The other worlds run processes that are values. This one runs the code that is shipped (listener,
handshake, links, hosts, storage, client, locks, store) in one interpreter, each simulated process on
an event loop of its own, and decides when everything happens. Same seed, same bytes.
"""
