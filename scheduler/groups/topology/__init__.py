"""The trees of racks and nodes that groups are placed in."""
