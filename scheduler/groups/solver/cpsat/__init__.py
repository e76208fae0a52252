"""The CP-SAT model of a group with one or several roles, and the stages in which it is solved."""
