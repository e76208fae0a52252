"""The objects that describe groups of pods, of all sources, and what follows from them alone."""
