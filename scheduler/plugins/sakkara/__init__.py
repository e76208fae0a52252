"""Sakkara: whole groups placed in a tree of racks and nodes, all or nothing."""
