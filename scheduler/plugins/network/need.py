"""`Need`: what ties a pod to the pods of another workload of its AppGroup."""

import msgspec


class Need(msgspec.Struct, frozen=True):
    """A pod's tie to the pods of another workload (or its own).

    `limit` is the highest cost that the way may have, `bandwidth` what a dependent pod asks for in
    bit/s. `is_dependent` says that the OTHER workload is the one that depends.
    """

    workload: str
    limit: int = 0
    bandwidth: int = 0
    is_dependent: bool = False
