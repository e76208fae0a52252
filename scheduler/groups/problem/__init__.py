"""Placing a group as plain records: the problem, the assignment, its certificate and its checker.

`instance` and `roles` are the problem with one and with several roles, `answer` is the result.
`checker` judges every assignment without any solver, `conflict` searches for conflicting rules.
Contains nothing of Kubernetes and does not import a solver.
"""
