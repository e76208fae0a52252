"""`Trial`: one plugin class and its samples; the input of the invariants."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from scheduler.base.errors import PluginError
from scheduler.objects.plain import read_pod
from scheduler.objects.pod import Pod
from scheduler.testing.evaluate import Evaluation, look
from scheduler.testing.samples import Manifest, Samples
from scheduler.testing.scene import PluginClass, Scene


class Trial(msgspec.Struct, frozen=True):
    """A plugin class with its arguments, and the samples."""

    cls: PluginClass
    args: Mapping[str, Any] | None
    samples: Samples

    def pods(self) -> list[Pod]:
        """Return the pods to be placed."""
        return [read_pod(raw) for raw in self.samples.pods]

    def scene(self, nodes: Iterable[Manifest] | None = None) -> Scene:
        """Return a scene with these sample nodes (all by default) and the pods on them."""
        chosen = list(self.samples.nodes if nodes is None else nodes)
        names = {raw["metadata"]["name"] for raw in chosen}
        scene = Scene(self.cls, self.args)
        scene.fill(
            chosen,
            [pod for pod in self.samples.existing_pods if pod["spec"]["nodeName"] in names],
            self.samples.namespaces,
            self.samples.objects,
        )
        return scene

    def looks(self, scene: Scene | None = None) -> Iterator[tuple[Pod, Evaluation]]:
        """Yield each pod with the plugin's verdict on it; pods on which it raises are left out."""
        scene = self.scene() if scene is None else scene
        for pod in self.pods():
            try:
                yield pod, look(scene, scene.cycle(pod))
            except PluginError:
                continue  # the invariant "runs" reports it
