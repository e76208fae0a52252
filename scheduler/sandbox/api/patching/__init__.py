"""Patches of all kinds, server-side apply, and the managers of fields."""
