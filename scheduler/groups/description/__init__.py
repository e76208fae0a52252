"""A group as its objects describe it: its specification, roles, rules, members and history."""
