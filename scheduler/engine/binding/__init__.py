"""From a chosen node to a bound pod, and the nominations in between."""
