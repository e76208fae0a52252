"""Placing a group as plain records: the problem, the assignment, its certificate, and what judges
them.

`instance` and `roles` are the problem with one and with several roles, `answer` what is returned;
`checker` judges every assignment without any solver, `conflict` searches for the rules that exclude
one another. Knows no Kubernetes, no solver and no ortools.
"""
