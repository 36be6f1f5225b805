"""Proofs for a page of the laboratory: clauses left out and added, and the solver in a process of its own."""
