"""The sandbox's store: every object, one version counter, synchronous and without I/O."""
