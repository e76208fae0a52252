"""The exact program for one role: tables over the tree, and what rules become in them."""
