"""Plans MovePlans in the helper process, and executes those that are approved."""
