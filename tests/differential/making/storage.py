"""Generated storage: classes, volumes, claims, drivers and the volumes of pods."""

from tests.differential.kinds import Manifest
from tests.differential.making.words import HOSTNAME, REGION, REGIONS, ZONE, ZONES, Dice

LATE = "WaitForFirstConsumer"
DRIVER, COUNTING = "csi.example.com", "cap.example.com"
MODES = (["ReadWriteOnce"], ["ReadWriteMany"], ["ReadOnlyMany"], ["ReadWriteOncePod"])
COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
SIZES = ("1Gi", "2Gi", "5Gi")


class Storage:
    """The storage of one case; `add_volumes` gives a pod volumes and records the objects that they
    need.
    """

    def __init__(self, dice: Dice, nodes: list[str]) -> None:
        self._dice = dice
        self._nodes = nodes
        self._made: list[Manifest] = []
        self._claims: dict[str, list[str]] = {}
        self._number = 0
        for _ in range(dice.randint(0, 3)):
            self._volume(None)

    def objects(self) -> list[Manifest]:
        """Return all objects of storage."""
        dice = self._dice
        found = [*_classes(dice), *_drivers(dice), *self._made]
        found += [_csinode(dice, name) for name in self._nodes if dice.chance(0.8)]
        for number in range(dice.randint(0, 3)):
            found.append(_capacity(dice, f"cap{number}"))
        if self._nodes and dice.chance(0.2):
            found.append(self._attachment())
        return found

    def add_volumes(self, pod: Manifest) -> None:
        """Give a pod some volumes."""
        dice, spec = self._dice, pod["spec"]
        is_new = "nodeName" not in spec
        if not dice.chance(0.75 if is_new else 0.4):
            return
        volumes: list[Manifest] = []
        for number in range(dice.weighted({1: 4, 2: 2})):
            kind = dice.weighted({"claim": 6, "disk": 2, "empty": 0.5, "ephemeral": 0.5})
            volume: Manifest = {"name": f"v{number}"}
            if kind == "claim":
                source = {"claimName": self._claim_for(pod)}
                if any(source == one.get("persistentVolumeClaim") for one in volumes):
                    continue
                volume["persistentVolumeClaim"] = source
            elif kind == "disk":
                volume |= _disk(dice)
            elif kind == "ephemeral":
                volume["ephemeral"] = {"volumeClaimTemplate": {"spec": self._claim_spec("late")}}
            else:
                volume["emptyDir"] = {}
            volumes.append(volume)
        spec["volumes"] = volumes

    def _claim_for(self, pod: Manifest) -> str:
        """Return the name of a claim: one that other pods use as well, a new one, or an
        unused one.
        """
        dice, namespace = self._dice, pod["metadata"]["namespace"]
        known = self._claims.setdefault(namespace, [])
        if known and dice.chance(0.25):
            return dice.choice(known)
        if dice.chance(0.04):
            return "missing"
        self._number += 1
        name = f"claim{self._number}"
        bound = 0.55 if "nodeName" not in pod["spec"] else 0.97
        self._claim(name, namespace, is_bound=dice.chance(bound))
        known.append(name)
        return name

    def _claim(self, name: str, namespace: str, *, is_bound: bool) -> None:
        dice = self._dice
        kind = dice.weighted({"late": 5, "static": 4, "topo": 2, "counted": 2, "now": 0.6})
        claim: Manifest = {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "annotations": {}},
            "spec": self._claim_spec(kind),
        }
        if is_bound:
            volume = self._volume(claim)
            claim["spec"]["volumeName"] = volume if dice.chance(0.97) else "lost"
            claim["metadata"]["annotations"][COMPLETED] = "yes"
            claim["status"] = {"phase": "Bound" if dice.chance(0.98) else "Lost"}
        elif dice.chance(0.06) and self._nodes:
            claim["metadata"]["annotations"][SELECTED] = dice.choice(self._nodes)
        elif kind == "static" and dice.chance(0.8):
            self._volume(None)
        if dice.chance(0.03):
            claim["metadata"] |= {"finalizers": ["example.com/keep"], "deletionTimestamp": "now"}
        self._made.append(claim)

    def _claim_spec(self, kind: str) -> Manifest:
        dice = self._dice
        spec: Manifest = {
            "accessModes": dice.choices(MODES, (6, 2, 1, 1))[0],
            "storageClassName": kind,
            "resources": {"requests": {"storage": dice.choice(SIZES)}},
        }
        if dice.chance(0.1):
            spec["selector"] = {"matchLabels": {"kind": dice.choice("ab")}}
        return spec

    def _volume(self, claim: Manifest | None) -> str:
        """Make a volume, bound to `claim` or free, and return its name."""
        dice = self._dice
        self._number += 1
        name = f"pv{self._number}"
        labels = {"kind": dice.choice("ab")} if dice.chance(0.6) else {}
        spec: Manifest = {
            "capacity": {"storage": dice.choice(SIZES)},
            "accessModes": list(dice.choices(MODES, (6, 2, 1, 0.5))[0]),
            "storageClassName": dice.weighted({"static": 5, "late": 2}),
            "persistentVolumeReclaimPolicy": "Retain",
            **_source(dice, name),
        }
        if claim is not None:
            spec |= {
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": claim["spec"]["storageClassName"],
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": claim["metadata"]["namespace"],
                    "name": claim["metadata"]["name"],
                },
            }
        where = dice.weighted({"any": 4, "zone": 3, "host": 2, "label": 3})
        if where == "label":
            key = dice.choice((ZONE, REGION, "failure-domain.beta.kubernetes.io/zone"))
            value = (
                dice.choice(REGIONS)
                if key == REGION
                else dice.choice((*ZONES, "__".join(ZONES[:2])))
            )
            labels[key] = value
        elif where != "any":
            key, values = (ZONE, ZONES) if where == "zone" else (HOSTNAME, self._nodes or ["x"])
            expression = {"key": key, "operator": "In", "values": dice.some(values, 2, 1)}
            spec["nodeAffinity"] = {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            }
        self._made.append(
            {
                "kind": "PersistentVolume",
                "metadata": {"name": name, "labels": labels},
                "spec": spec,
                "status": {"phase": "Available" if claim is None else "Bound"},
            }
        )
        return name

    def _attachment(self) -> Manifest:
        dice = self._dice
        volumes = [one for one in self._made if one["kind"] == "PersistentVolume"]
        name = dice.choice(volumes)["metadata"]["name"] if volumes else "other"
        return {
            "kind": "VolumeAttachment",
            "metadata": {"name": "attachment"},
            "spec": {
                "attacher": DRIVER,
                "nodeName": dice.choice(self._nodes),
                "source": {"persistentVolumeName": name},
            },
        }


def _classes(dice: Dice) -> list[Manifest]:
    topo = {"key": ZONE, "values": dice.some(ZONES, 2, 1)}
    return [
        _class("late", DRIVER, LATE),
        _class("static", "kubernetes.io/no-provisioner", LATE),
        {**_class("topo", DRIVER, LATE), "allowedTopologies": [{"matchLabelExpressions": [topo]}]},
        _class("counted", COUNTING, LATE),
        _class("now", DRIVER, "Immediate"),
    ]


def _class(name: str, provisioner: str, mode: str) -> Manifest:
    return {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def _drivers(dice: Dice) -> list[Manifest]:
    return [
        {"kind": "CSIDriver", "metadata": {"name": name}, "spec": {"storageCapacity": counts}}
        for name, counts in ((DRIVER, False), (COUNTING, True))
        if dice.chance(0.9)
    ]


def _csinode(dice: Dice, name: str) -> Manifest:
    drivers = []
    for driver in (DRIVER, "pd.csi.storage.gke.io", "ebs.csi.aws.com"):
        if dice.chance(0.8 if driver == DRIVER else 0.3):
            one: Manifest = {"name": driver, "nodeID": name}
            if dice.chance(0.7):
                one["allocatable"] = {"count": dice.choice((1, 2, 3))}
            drivers.append(one)
    meta: Manifest = {"name": name}
    if dice.chance(0.3):
        meta["annotations"] = {MIGRATED: "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}
    return {"kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}


def _capacity(dice: Dice, name: str) -> Manifest:
    found: Manifest = {
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": dice.choice(("red", "plain"))},
        "storageClassName": dice.choice(("counted", "counted", "late")),
        "nodeTopology": {"matchLabels": {ZONE: dice.choice(ZONES)}} if dice.chance(0.8) else {},
    }
    if dice.chance(0.9):
        found["capacity"] = dice.choice(("500Mi", "1Gi", "10Gi"))
    if dice.chance(0.3):
        found["maximumVolumeSize"] = dice.choice(("1Gi", "3Gi"))
    return found


def _source(dice: Dice, name: str) -> Manifest:
    kind = dice.weighted({"csi": 6, "gce": 1, "aws": 1, "host": 2})
    if kind == "csi":
        return {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"}}
    if kind == "gce":
        return {"gcePersistentDisk": {"pdName": name}}
    if kind == "aws":
        return {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}
    return {"hostPath": {"path": "/data"}}


def _disk(dice: Dice) -> Manifest:
    read_only = dice.chance(0.4)
    disk = dice.choice(("d1", "d2"))
    kinds: list[Manifest] = [
        {"gcePersistentDisk": {"pdName": disk, "readOnly": read_only}},
        {"awsElasticBlockStore": {"volumeID": disk, "readOnly": read_only}},
        {
            "iscsi": {
                "targetPortal": "10.0.0.1:3260",
                "iqn": f"iqn.2026-01.com.example:{disk}",
                "lun": 0,
                "readOnly": read_only,
            }
        },
        {
            "rbd": {
                "monitors": dice.some(("m1", "m2"), 2, 1),
                "image": disk,
                "readOnly": read_only,
            }
        },
    ]
    return dice.choice(kinds)
