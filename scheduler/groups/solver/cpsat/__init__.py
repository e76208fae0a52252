"""The CP-SAT model of one role: a histogram of the leaves below each unit."""
