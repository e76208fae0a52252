"""What objects say of a group: its specification, roles, rules, members and history."""
