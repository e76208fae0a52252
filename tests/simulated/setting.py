"""The cluster of a seed: number of replicas, lease times, behaviour of its API server."""

from random import Random
from typing import NamedTuple

import msgspec

from scheduler.config import Loaded
from scheduler.sandbox.kinds.kinds import RELEASES


class Lease(NamedTuple):
    """Three times in seconds: the lease duration, the renew deadline, and the retry period."""

    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


# Common settings: Kubernetes' own, a calmer one, and that of distributions whose API server may be
# unavailable for a minute during an upgrade.
LEASES = (Lease(), Lease(30, 20, 5), Lease(60, 40, 10), Lease(137, 107, 26))
# First and longest back-off of a pod, in seconds.
BACKOFFS = ((1.0, 10.0), (1.0, 10.0), (1.0, 60.0), (5.0, 30.0))
MINUTE_S = 60.0
INF = float("inf")


class Setting(NamedTuple):
    """A cluster; times in seconds.

    An API server sends bookmarks every `bookmark_s`, and drops its history every `forgets_s`; it
    stores `history` changes of a kind.
    """

    replicas: int = 2
    lease: Lease = LEASES[0]
    backoff: tuple[float, float] = BACKOFFS[0]
    release: str = RELEASES[0]
    bookmark_s: float = MINUTE_S
    forgets_s: float = INF
    history: int = 2048

    def loaded(self, plain: Loaded) -> Loaded:
        """Return a configuration with the times of this setting."""
        change = msgspec.structs.replace
        lease, (first_s, longest_s) = self.lease, self.backoff
        scheduler = change(
            plain.scheduler,
            pod_initial_backoff_s=first_s,
            pod_max_backoff_s=longest_s,
            leader_election=change(
                plain.scheduler.leader_election,
                lease_duration_s=lease.duration_s,
                renew_deadline_s=lease.renew_deadline_s,
                retry_period_s=lease.retry_s,
            ),
        )
        return change(plain, scheduler=scheduler)


def drawn(dice: Random) -> Setting:
    """Draw a cluster; each part has its most common value in most draws."""
    return Setting(
        replicas=dice.choice((1, 2, 2, 2, 2, 3)),
        lease=dice.choice((LEASES[0], *LEASES)),
        backoff=dice.choice(BACKOFFS),
        release=dice.choice(RELEASES),
        bookmark_s=dice.choice((MINUTE_S, MINUTE_S, INF)),
        forgets_s=dice.choice((INF, INF, 5 * MINUTE_S)),
        history=dice.choice((2048, 2048, 64)),
    )
