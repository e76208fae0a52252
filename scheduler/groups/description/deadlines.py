"""Hard rules that become preferences after a time: which bind now, and when the next one stops to
bind.

Counted from the creation of the oldest waiting member, so a restart changes nothing, and a
recreated member waits for its place as long as the first ones did. Pure.
"""

from collections.abc import Sequence

import msgspec

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.base.text import go_duration
from scheduler.groups.description.spec import GroupSpec
from scheduler.objects.pod import Pod


class Deadline(msgspec.Struct, frozen=True):
    """When the next hard rules of a group become preferences (seconds since the epoch), and
    which.
    """

    at: float
    rules: tuple[str, ...]

    def text(self, now: float) -> str:
        """Return a sentence with the rules, their end and the time until then."""
        left = go_duration(max(1.0, float(round(self.at - now))))
        rules = " and ".join(self.rules)
        holds = "holds" if len(self.rules) == 1 else "hold"
        return f"{rules} {holds} until {rfc3339(self.at)} ({left} more), as a wish after that"


def at_time(
    spec: GroupSpec, members: Sequence[Pod], now: float
) -> tuple[GroupSpec, Deadline | None]:
    """Return the group's rules at time `now`, and the time of their next change; None if there is
    none.

    `members` are the waiting ones.
    """
    timed = {level: rule for level, rule in spec.constraints.items() if rule.for_s}
    if not timed:
        return spec, None
    made = (parse_rfc3339(pod.metadata.creation_timestamp) for pod in members)
    since = min((one for one in made if one is not None), default=now)
    rules = dict(spec.constraints)
    ends: dict[str, float] = {}
    for level, rule in timed.items():
        if since + rule.for_s > now:
            ends[f"{level} hard {rule.type}"] = since + rule.for_s
        else:
            rules[level] = msgspec.structs.replace(rule, hard=False)
    spec = msgspec.structs.replace(spec, constraints=rules)
    if not ends:
        return spec, None
    first = min(ends.values())
    return spec, Deadline(first, tuple(name for name, end in ends.items() if end == first))
