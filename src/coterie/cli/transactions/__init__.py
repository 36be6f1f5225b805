"""The commands about transactions: histories, audits of other stores, schemes compared."""
