"""Schemes and sites on trial: scripted and random transactions in virtual time."""
