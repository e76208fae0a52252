"""Plans of groups of several roles: members that request or prefer different things."""
