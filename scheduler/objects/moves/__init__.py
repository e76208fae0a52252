"""MovePlans, and the questions about them to the helper process."""
