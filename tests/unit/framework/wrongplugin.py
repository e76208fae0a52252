"""A plugin in which every signature is wrong: mypy and the registry report each."""

from scheduler.framework import ApiCall, Cycle, NoArgs, Nodes, Plugin, Pod, Status


class EveryPointWrong(Plugin[NoArgs]):
    """Lacks arguments, and returns other types than the points expect."""

    def pre_enqueue(self) -> Status | None:
        return None

    def less(self, first: Pod) -> bool:
        return True

    def hint(self, pod: Pod) -> bool:
        return True

    def pre_filter(self, cycle: Cycle) -> int:
        return 1

    def filter(self, nodes: Nodes) -> None:
        return None

    def post_filter(self, cycle: Cycle, nodes: Nodes) -> None:
        return None

    def pre_score(self, cycle: Cycle) -> None:
        return None

    def score(self, cycle: Cycle) -> list[int]:
        return [1]

    def reserve(self, node: str) -> None:
        return None

    def unreserve(self, node: str) -> None:
        return None

    def permit(self, node: str) -> None:
        return None

    async def pre_bind(self, cycle: Cycle, node: str, state: int) -> ApiCall:
        return ApiCall("GET", "/api")

    async def bind(self, cycle: Cycle, node: str) -> ApiCall:
        return ApiCall("GET", "/api")

    def post_bind(self, node: str) -> None:
        return None


class EveryReturnWrong(Plugin[NoArgs]):
    """Takes the right arguments, and returns other types than expected."""

    def pre_enqueue(self, pod: Pod) -> bool:
        return True

    def less(self, first: Pod, second: Pod) -> str:
        return ""

    def hint(self, change: object, pod: Pod) -> str:
        return ""

    def filter(self, cycle: Cycle, nodes: Nodes) -> list[int]:
        return [1]

    def score(self, cycle: Cycle, nodes: Nodes) -> list[int]:
        return [1]

    def reserve(self, cycle: Cycle, node: str) -> bool:
        return True

    def permit(self, cycle: Cycle, node: str) -> float:
        return 1.0

    def post_bind(self, cycle: Cycle, node: str) -> bool:
        return True
