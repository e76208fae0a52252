"""Explanations of decisions, and the answers to a page's questions about a snapshot."""
