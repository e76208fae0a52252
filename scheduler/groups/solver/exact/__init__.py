"""The exact program for groups of one role: cost tables over the tree, and rules as levels."""
