"""Who may do what: accounts, passwords, tokens, limits, and the record of what was tried."""
