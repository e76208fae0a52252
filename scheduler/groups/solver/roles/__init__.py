"""Groups of several roles: descent, bounds and CP-SAT models over patterns of leaves."""
