"""Keep pods off racks that are due for maintenance; prefer the youngest rack."""

from scheduler.framework import Args, Cycle, IntColumn, Nodes, Plugin, Rejected, reject


class RackAgeArgs(Args):
    """The label with the age, and the maximum age."""

    label: str = "example.com/rack-age-days"
    max_age_days: int = 365


class RackAge(Plugin[RackAgeArgs]):
    """Reject nodes on a rack older than `maxAgeDays`; score the rest by age, youngest best."""

    reads = ("node.labels",)
    normalize = "reverse"

    def filter(self, cycle: Cycle, nodes: Nodes) -> Rejected:
        """Reject nodes on racks that are too old, with the reason."""
        age = nodes.label_int(self.args.label)
        return reject(age > self.args.max_age_days, "node(s) were on an old rack", final=True)

    def score(self, cycle: Cycle, nodes: Nodes) -> IntColumn:
        """Return the age; the lowest raw score is the best, as `normalize` states."""
        return nodes.label_int(self.args.label)
