"""Work in other processes: for a page, for MovePlans, and for the lines of a batch."""
