"""Controllers of Trellis' own kinds, run by kopf inside the daemon's process and loop.

They write status through the API server; of the scheduler they see objects and `ClusterView`.
"""
