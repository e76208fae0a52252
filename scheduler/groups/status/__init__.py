"""The writes to the objects of a group, and the events about them."""
