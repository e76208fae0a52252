"""The volume plugins once more, node by node and in plain Python: slow and simple.

Each function returns the result for a pod: a text (pre-filter rejects it), None (it is skipped), or
the reasons per node.
"""

from scheduler.objects.quantity import quantity
from scheduler.objects.selectors import requirements_match, selector_matches
from tests.unit.plugins.randomstorage import pods_on
from tests.unit.plugins.storage import ZONE

BETA = "failure-domain.beta.kubernetes.io/zone"
DISK = "node(s) had no available disk"
ONCE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
LIMIT = "node(s) exceed max volume count"
ELSEWHERE = "node(s) had no available volume zone"
AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
UNMATCHED = "node(s) didn't find available persistent volumes to bind"
CRAMPED = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class SimulatedCluster:
    """The objects of a scene by kind."""

    def __init__(self, scene):
        self.scene = scene
        self.nodes = [n for n in scene.cluster.table.nodes if n is not None]
        of = scene.cluster.store.of
        self.claims, self.volumes = of("PersistentVolumeClaim"), of("PersistentVolume")
        self.classes, self.csi_nodes = of("StorageClass"), of("CSINode")
        self.attachments = of("VolumeAttachment")
        self.drivers, self.capacities = of("CSIDriver"), of("CSIStorageCapacity")

    def named(self, pod, *, ephemeral=True):
        """Return the claims of a pod: (name, object or None)."""
        found = []
        for one in pod.spec.volumes:
            if one.persistent_volume_claim is not None:
                name = one.persistent_volume_claim.claim_name
            elif one.ephemeral is not None and ephemeral:
                name = f"{pod.metadata.name}-{one.name}"
            else:
                continue
            found.append((name, self.claims.get(f"default/{name}")))
        return found


def restrictions(cluster, pod):
    """Return the reference result of VolumeRestrictions."""
    single = []
    for name, claim in cluster.named(pod, ephemeral=False):
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if "ReadWriteOncePod" in claim.spec.access_modes:
            single.append(name)
    others = [other for node in cluster.nodes for other in pods_on(cluster.scene, node.key)]
    used = {name for other in others for name, _ in cluster.named(other, ephemeral=False)}
    taken = bool(used.intersection(single))
    disks = [v for v in pod.spec.volumes if v.gce_persistent_disk or v.rbd]
    if not disks and not taken:
        return None
    found = {}
    for node in cluster.nodes:
        existing = [v for other in pods_on(cluster.scene, node.key) for v in other.spec.volumes]
        clash = any(_same_disk(mine, other) for mine in disks for other in existing)
        found[node.key] = (DISK,) if clash else (ONCE,) if taken else ()
    return found


def _same_disk(one, other):
    if one.gce_persistent_disk and other.gce_persistent_disk:
        first, second = one.gce_persistent_disk, other.gce_persistent_disk
        return first.pd_name == second.pd_name and not (first.read_only and second.read_only)
    if one.rbd and other.rbd:
        return bool(set(one.rbd.monitors) & set(other.rbd.monitors))
    return False


def limits(cluster, pod):
    """Return the reference result of NodeVolumeLimits."""
    if not pod.spec.volumes or all(v.rbd for v in pod.spec.volumes):
        return None
    for name, claim in cluster.named(pod):
        if claim is None:
            text = f'looking up PVC default/{name}: persistentvolumeclaim "{name}" not found'
            return {node.key: (text,) for node in cluster.nodes}
    found = {}
    for node in cluster.nodes:
        new = _counted(cluster, pod)
        csi_node = cluster.csi_nodes.get(node.key)
        most = csi_node.limits if csi_node is not None else {}
        existing = {
            v for other in pods_on(cluster.scene, node.key) for v in _counted(cluster, other)
        }
        attached = {
            (
                a.spec.attacher,
                cluster.volumes[a.spec.source.persistent_volume_name].spec.csi.volume_handle,
            )
            for a in cluster.attachments.values()
            if a.spec.node_name == node.key
            and a.spec.source.persistent_volume_name in cluster.volumes
            and cluster.volumes[a.spec.source.persistent_volume_name].spec.csi is not None
        }
        new -= existing
        too_many = any(
            count + sum(d == driver for d, _ in existing | attached) > most[driver]
            for driver in most
            if (count := sum(d == driver for d, _ in new))
        )
        found[node.key] = (LIMIT,) if too_many else ()
    return found


def _counted(cluster, pod):
    gke = "pd.csi.storage.gke.io"
    found = set()
    for one in pod.spec.volumes:
        if one.gce_persistent_disk:
            found.add((gke, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"))
    for name, claim in cluster.named(pod):
        if claim is None:
            continue
        volume = cluster.volumes.get(claim.spec.volume_name)
        if volume is not None and volume.spec.csi is not None:
            found.add((volume.spec.csi.driver, volume.spec.csi.volume_handle))
        elif volume is not None and volume.spec.gce_persistent_disk is not None:
            found.add((gke, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"))
        elif volume is None and claim.spec.storage_class_name in cluster.classes:
            provisioner = cluster.classes[claim.spec.storage_class_name].provisioner
            driver = gke if provisioner == "kubernetes.io/gce-pd" else provisioner
            found.add((driver, f"claim {name}"))
    return found


def zone(cluster, pod):
    """Return the reference result of VolumeZone."""
    wanted = []
    for name, claim in cluster.named(pod, ephemeral=False):
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if not claim.spec.volume_name:
            class_name = claim.spec.storage_class_name
            if not class_name:
                return "PersistentVolumeClaim had no pv name and storageClass name"
            if class_name not in cluster.classes:
                return f'storageclass.storage.k8s.io "{class_name}" not found'
            if cluster.classes[class_name].volume_binding_mode != "WaitForFirstConsumer":
                return "PersistentVolume had no name"
            continue
        if claim.spec.volume_name not in cluster.volumes:
            return f'persistentvolume "{claim.spec.volume_name}" not found'
        label = cluster.volumes[claim.spec.volume_name].metadata.labels.get(ZONE)
        if label is not None:
            wanted.append(label.split("__"))
    if not wanted:
        return None
    found = {}
    for node in cluster.nodes:
        own = node.metadata.labels.get(ZONE)
        fits = own is None or all(own in values for values in wanted)
        found[node.key] = () if fits else (ELSEWHERE,)
    return found


def binding(cluster, pod):
    """Return the reference result of VolumeBinding."""
    named = cluster.named(pod)
    if not named:
        return None
    for (name, claim), used in zip(named, pod.spec.volumes, strict=False):
        if claim is None and used.ephemeral:
            waits_for = "waiting for ephemeral volume controller to create"
            return f'{waits_for} the persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
    claims = list({claim.key: claim for _, claim in named}.values())
    bound = [c for c in claims if "pv.kubernetes.io/bind-completed" in c.metadata.annotations]
    unbound = [claim for claim in claims if claim not in bound]
    for claim in unbound:
        found = cluster.classes.get(claim.spec.storage_class_name or "")
        waits = found is not None and found.volume_binding_mode == "WaitForFirstConsumer"
        if not waits or claim.spec.volume_name:
            return "pod has unbound immediate PersistentVolumeClaims"
    return {node.key: _on_node(cluster, node, bound, unbound) for node in cluster.nodes}


def _on_node(cluster, node, bound, unbound):
    reasons = []
    for claim in bound:
        volume = cluster.volumes.get(claim.spec.volume_name)
        if volume is None:
            reasons.append(GONE)
            break
        if not _reaches(cluster, volume, node, migrate=True):
            reasons.append(AFFINITY)
            break
    reasons += _unbound_on(cluster, node, unbound)
    order = (AFFINITY, UNMATCHED, CRAMPED, GONE)
    return tuple(sorted(reasons, key=order.index))


def _unbound_on(cluster, node, unbound):
    key = "volume.kubernetes.io/selected-node"
    sent = [c for c in unbound if key in c.metadata.annotations]
    if any(c.metadata.annotations[key] != node.key for c in sent):
        return [UNMATCHED]
    make, chosen = list(sent), set[str | None]()
    for claim in sorted((c for c in unbound if c not in sent), key=_size):
        name = _match(cluster, node, claim, chosen)
        if name is None:
            make.append(claim)
        chosen.add(name)
    for claim in make:
        found = cluster.classes[claim.spec.storage_class_name]
        if found.provisioner == "kubernetes.io/no-provisioner":
            return [UNMATCHED]
        allowed = [e for t in found.allowed_topologies for e in t.match_label_expressions]
        if any(node.metadata.labels.get(e.key) not in e.values for e in allowed):
            return [UNMATCHED]
        driver = cluster.drivers.get(found.provisioner)
        if driver is not None and driver.spec.storage_capacity:
            fits = any(
                quantity(c.limit) >= _size(claim)
                and selector_matches(c.node_topology, node.metadata.labels)
                for c in cluster.capacities.values()
            )
            if not fits:
                return [CRAMPED]
    return []


def _match(cluster, node, claim, chosen):
    best = None
    for name, volume in sorted(cluster.volumes.items()):
        ref = volume.spec.claim_ref
        mine = (
            ref is not None
            and ref.name == claim.metadata.name
            and ref.uid in ("", claim.metadata.uid)
        )
        size = quantity(volume.spec.capacity["storage"])
        if name in chosen or (ref is not None and not mine) or size < _size(claim):
            continue
        if volume.spec.storage_class_name != claim.spec.storage_class_name:
            continue
        reaches = _reaches(cluster, volume, node, migrate=False)
        if mine:
            return name if reaches else None
        selector = claim.spec.selector
        if (
            volume.status.phase == "Available"
            and reaches
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
            and (selector is None or selector_matches(selector, volume.metadata.labels))
            and (best is None or size < best[0])
        ):
            best = (size, name)
    return best[1] if best is not None else None


def _reaches(cluster, volume, node, *, migrate):
    if volume.spec.node_affinity is None:
        return True
    labels = dict(node.metadata.labels)
    csi_node = cluster.csi_nodes.get(node.key)
    is_moved = csi_node is not None and csi_node.metadata.annotations
    if migrate and volume.spec.gce_persistent_disk is not None and is_moved:
        labels[ZONE] = labels.get("topology.gke.io/zone", "none")
    return any(
        requirements_match(term.match_expressions, labels)
        for term in volume.spec.node_affinity.required.node_selector_terms
    )


def _size(claim):
    return quantity(claim.spec.resources.requests["storage"])
