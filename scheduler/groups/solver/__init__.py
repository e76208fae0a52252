"""CP-SAT as a library without Kubernetes: instances in, checked answers out.

Loaded only in the helper process of scheduler.workers, so that the daemon never loads ortools.
"""
