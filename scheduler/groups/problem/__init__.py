"""Records and checks for placing a group: the problem, an assignment, its certificate, the checker.

`instance` states the problem for one role, `roles` for several; `answer` is the result. `checker`
verifies assignments without a solver, `conflict` finds conflicting rules. The package imports
nothing of Kubernetes and no solver.
"""
