"""Feature gates: which exist, in which releases, and the effects of their values."""
