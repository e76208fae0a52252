"""Bandwidth: what pods allocate on links, what is free, and what nodes use."""
