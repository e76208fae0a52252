"""The newest version in which an API server serves PodGroups of scheduling.k8s.io."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

GROUP = "scheduling.k8s.io"
# The disruption modes of v1alpha2, as later versions spell them.
UNIONS = {"Pod": "single", "PodGroup": "all"}


class PodGroupApi(NamedTuple):
    """A version, and the type of the condition that states whether a group was scheduled."""

    version: str
    scheduled: str

    @property
    def api_version(self) -> str:
        """Return the `apiVersion` of its objects."""
        return f"{GROUP}/{self.version}"

    def path(self, namespace: str = "default") -> str:
        """Return the path of its PodGroups."""
        return f"/apis/{self.api_version}/namespaces/{namespace}/podgroups"

    def written(self, group: dict[str, Any]) -> dict[str, Any]:
        """Return a PodGroup of v1alpha2 in this version, whose disruption mode is a union."""
        spec = group["spec"]
        if self.version != "v1alpha2" and "disruptionMode" in spec:
            spec = spec | {"disruptionMode": {UNIONS[spec["disruptionMode"]]: {}}}
        return group | {"apiVersion": self.api_version, "spec": spec}


# Kubernetes 1.37 and 1.36, the newest first.
VERSIONS = (
    PodGroupApi("v1beta1", "PodGroupInitiallyScheduled"),
    PodGroupApi("v1alpha2", "PodGroupScheduled"),
)


async def served(get: Callable[[str], Awaitable[dict[str, Any]]]) -> PodGroupApi:
    """Return the newest version by the server's discovery; `get` reads a path."""
    versions = {one["version"] for one in (await get(f"/apis/{GROUP}"))["versions"]}
    return next(one for one in VERSIONS if one.version in versions)
