"""A transactional key-value store on any scheme of concurrency control."""

from coterie.transactions.store.store import Store
from coterie.transactions.store.transaction import Counts, Transaction

__all__ = ["Counts", "Store", "Transaction"]
