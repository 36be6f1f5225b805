"""What `coterie demo` shows: a lock that outlives dead and stopped nodes, and a fence that holds.

Five nodes and four workers are processes of their own. The workers fight for one lock; inside it
each adds an entry to a ledger that only the lock and the fence protect.
"""
