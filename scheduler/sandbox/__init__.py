"""An embedded Kubernetes API server with simulated nodes, reached only over HTTPS.

Knows objects and base and nothing else of the scheduler, so that it cannot share its mistakes.
"""
