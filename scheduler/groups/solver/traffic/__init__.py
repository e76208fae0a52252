"""Members with traffic: bounds of its cost, placements that keep them close, minimum cuts."""
