"""Clients of the older contract, played with raw HTTP."""
