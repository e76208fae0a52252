"""Groups of several roles: greedy descent, bounds, relaxation, and the search by stages."""
