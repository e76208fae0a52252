"""Members that exchange traffic: bounds of its cost, placements near one another, least cuts."""
