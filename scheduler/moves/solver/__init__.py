"""The planner of moves: minimum relocations with proof, on plain records without Kubernetes
objects.
"""
