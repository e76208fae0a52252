"""What would happen: the scheduler's own engine on a snapshot, without a cluster.

Texts and plain objects in, records out; reads no files and no clock.
"""
