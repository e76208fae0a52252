"""An embedded Kubernetes API server with simulated nodes, accessed only over HTTPS.

Imports objects and base and nothing else of the scheduler, so that the two share no faults.
"""
