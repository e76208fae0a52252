"""CP-SAT as a library that knows no Kubernetes: instances in, checked answers out.

Loaded only in the helper process of scheduler.workers, so that the daemon never carries ortools.
"""
