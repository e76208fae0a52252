"""The search for the fewest victims that free capacity for a group."""
