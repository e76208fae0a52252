"""Groups of several roles: descent, bounds, relaxation and the stages of their search."""
