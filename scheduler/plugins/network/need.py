"""`Need`: the dependency between a pod and the pods of another workload of its AppGroup."""

import msgspec


class Need(msgspec.Struct, frozen=True):
    """A pod's tie to the pods of another workload (or its own).

    `limit` is the highest cost of the path, `bandwidth` the request of a dependent pod in bit/s.
    `is_dependent` means that the OTHER workload is the dependent one.
    """

    workload: str
    limit: int = 0
    bandwidth: int = 0
    is_dependent: bool = False
