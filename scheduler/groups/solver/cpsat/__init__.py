"""The CP-SAT model of a group with one or several roles, and the stages it is run by."""
