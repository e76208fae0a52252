"""The controllers of a cluster, one per kind, in plain form: they work on the store and only there."""
