"""Mutual exclusion by quorums: any two share a member, who says yes to one at a time."""
