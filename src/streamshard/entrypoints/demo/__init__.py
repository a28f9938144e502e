"""The demo: real processes, a story that hurts them, and a ledger that tells whether anything was lost."""
