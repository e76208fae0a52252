"""From a group and the live nodes to a solver problem, and from its answer to a plan."""
