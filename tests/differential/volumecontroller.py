"""The part of the volume controllers that binding a pod needs: claims get their volumes.

kube-scheduler writes its choice (a volume's claimRef, a claim's selected node) and waits; this
module finishes the binding, because a lone API server has no controllers. Volumes provisioned here
are reachable from every node.
"""

from tests.differential.kinds import Manifest, collection
from tests.real.api import MERGE, Api

NODE = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"


async def bind_claims(api: Api, pod: Manifest) -> int:
    """Bind the claims of `pod` that the scheduler has decided.

    Return the volumes made for it.
    """
    made = 0
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes", ()):
        name = volume.get("persistentVolumeClaim", {}).get("claimName")
        if "ephemeral" in volume:
            name = f"{pod['metadata']['name']}-{volume['name']}"
        if name:
            made += await _bind(api, f"{collection('PersistentVolumeClaim', namespace)}/{name}")
    return made


async def _bind(api: Api, path: str) -> int:
    code, claim = await api.request("GET", path)
    if code != 200 or COMPLETED in claim["metadata"].get("annotations", {}):
        return 0
    uid, volume, made = claim["metadata"]["uid"], None, 0
    volumes, _ = await api.list(collection("PersistentVolume"))
    for each in volumes:
        if each["spec"].get("claimRef", {}).get("uid") == uid:
            volume = each["metadata"]["name"]
    if volume is None:
        if NODE not in claim["metadata"].get("annotations", {}):
            return 0
        volume, made = await _provision(api, claim), 1
    patch = {
        "metadata": {"annotations": {COMPLETED: "yes"}},
        "spec": {"volumeName": volume},
    }
    await api.patch(path, patch, MERGE)
    await api.patch(f"{path}/status", {"status": {"phase": "Bound"}}, MERGE)
    return made


async def _provision(api: Api, claim: Manifest) -> str:
    meta = claim["metadata"]
    name = f"made-{meta['namespace']}-{meta['name']}"
    await api.expect(
        "POST",
        collection("PersistentVolume"),
        {
            "metadata": {"name": name},
            "spec": {
                "capacity": claim["spec"]["resources"]["requests"],
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": claim["spec"].get("storageClassName", ""),
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": meta["namespace"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                },
            },
        },
    )
    return name
