"""From a chosen node to a bound pod, and the room that is promised meanwhile."""
