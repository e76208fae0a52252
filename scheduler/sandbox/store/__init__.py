"""The sandbox's memory: every object, one version counter, synchronous and without I/O."""
