"""Pods and related objects as a user might write them: mostly valid, sometimes not.

Every production draws from few words, so that selectors meet labels and names meet objects.
Deterministic for a `Random`; builds plain data, independent of the scheduler.
"""

from collections.abc import Callable
from random import Random
from typing import Any

Plain = Any

KEYS = ("app", "tier", "topology.kubernetes.io/zone", "kubernetes.io/hostname", "example.com/a-b_c")
VALUES = ("web", "db", "a", "b", "n0", "n1", "3", "", "x" * 63)
ODD_TEXTS = ("-", "a b", "x" * 300, "ü", "\u0000", "UPPER", "9" * 40, "*", "a/b/c", "\ud7ff", " ")
AMOUNTS = (
    "1", "500m", "0", "2Gi", "1e3", 1, 0.5, "100", "1Ei", "9223372036854775807", "0.1n", "64",
    "1.5",
)  # fmt: skip
ODD_AMOUNTS = (
    "-1", "", "lots", "1e999", "1e-999", 10**30, -(10**30), "1.5.5", "0x10", "1 Gi", "Gi", "+1",
    ".", "1E",
    1e308, True, None, "9" * 64, "9" * 65, "1e+", "-0", "٣",
)  # fmt: skip
NUMBERS = (1, 2, 3, 5, 100)
ODD_NUMBERS = (0, -1, 2**31 - 1, 2**31, -(2**31), 2**63, 10**30, 1.5, "1", None, 101)
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS = (*OPERATORS, "Gt", "Lt")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "pods")
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Grammar:
    """A generator of manifests: `oddity` is the share of invalid words."""

    def __init__(self, random: Random, oddity: float) -> None:
        self.random = random
        self.oddity = oddity

    def pod(self, name: str) -> Plain:
        """Return a pod; it may name a node."""
        meta = {
            "name": name,
            "namespace": self.word(("default", "default", "other")),
            **self._meta(),
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": self.spec()}

    def spec(self) -> Plain:
        """Return the spec of a pod."""
        some = self._some
        spec: dict[str, Plain] = {"containers": self.many(self._container, 1, 3)}
        spec["schedulerName"] = "trellis" if self.random.random() < 0.95 else self.word(VALUES)
        some(spec, "initContainers", 0.2, lambda: self.many(self._container, 0, 2))
        some(spec, "nodeSelector", 0.1, self._labels)
        some(spec, "tolerations", 0.3, lambda: self.many(self._toleration, 0, 3))
        some(spec, "affinity", 0.4, self._affinity)
        some(spec, "topologySpreadConstraints", 0.3, lambda: self.many(self._spread, 0, 2))
        some(spec, "overhead", 0.1, self._resources)
        some(spec, "resources", 0.1, self._requirements)
        some(spec, "priority", 0.2, self._number)
        some(spec, "priorityClassName", 0.05, lambda: self.word(("high", "low")))
        some(spec, "preemptionPolicy", 0.1, lambda: self.word(("Never", "PreemptLowerPriority")))
        some(spec, "schedulingGates", 0.05, lambda: [{"name": self.word(VALUES)}])
        some(spec, "volumes", 0.25, lambda: self.many(self._volume, 0, 3))
        some(spec, "resourceClaims", 0.03, lambda: [{"name": "c", "resourceClaimName": "c"}])
        some(spec, "nodeName", 0.1, lambda: self.word(("n0", "n1", "nowhere")))
        some(spec, "hostNetwork", 0.1, lambda: True)
        return spec

    def node(self, name: str) -> Plain:
        """Return a node."""
        offers: dict[str, Plain] = {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": 2}
        offers |= self._resources() if self.random.random() < 0.3 else {}
        labels = {"kubernetes.io/hostname": name, KEYS[2]: self.word(("a", "b"))} | self._labels()
        taints = self.many(self._taint, 0, 1) if self.random.random() < 0.2 else []
        images = [{"names": ["web:1"], "sizeBytes": self._number()}]
        return {
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {"allocatable": offers, "images": images},
        }

    def surroundings(self) -> list[Plain]:
        """Return objects that pods refer to."""
        budget = {"selector": self._selector()}
        status = {"disruptionsAllowed": self._number()}
        makers: tuple[Callable[[], Plain], ...] = (
            lambda: self._named("Namespace", "default", {}),
            lambda: self._named("Service", "s", {"spec": {"selector": self._labels()}}),
            lambda: self._named("ReplicaSet", "r", {"spec": {"selector": self._selector()}}),
            lambda: self._named("PodDisruptionBudget", "b", {"spec": budget, "status": status}),
            lambda: self._named("PersistentVolumeClaim", "claim", {"spec": self._claim()}),
            lambda: self._named("PersistentVolume", "v", {"spec": self._persistent()}),
            lambda: self._named("StorageClass", "late", self._class()),
            lambda: self._named("CSINode", "n0", {"spec": {"drivers": [self._driver()]}}),
            lambda: self._named(
                "CSIStorageCapacity",
                "k",
                {
                    "storageClassName": "late",
                    "nodeTopology": self._selector(),
                    "capacity": self._amount(),
                },
            ),
        )
        classes = [self._named("PriorityClass", name, {"value": 1}) for name in ("high", "low")]
        return classes + [make() for make in makers if self.random.random() < 0.35]

    # Words.

    def word(self, words: tuple[str, ...]) -> Plain:
        """Return one of the words, or an odd one."""
        return self.random.choice(ODD_TEXTS if self._odd() else words)

    def many(self, make: Callable[[], Plain], least: int, most: int) -> list[Plain]:
        """Return a few; seldom very many."""
        count = self.random.randint(least, most)
        if self.random.random() < self.oddity * 0.02:
            count = self.random.choice((50, 300))
        return [make() for _ in range(count)]

    def _odd(self) -> bool:
        return self.random.random() < self.oddity

    def _some(
        self, into: dict[str, Plain], key: str, share: float, make: Callable[[], Plain]
    ) -> None:
        if self.random.random() < share:
            into[key] = make()

    def _amount(self) -> Plain:
        return self.random.choice(ODD_AMOUNTS if self._odd() else AMOUNTS)

    def _number(self) -> Plain:
        return self.random.choice(ODD_NUMBERS if self._odd() else NUMBERS)

    # Parts.

    def _meta(self) -> dict[str, Plain]:
        meta: dict[str, Plain] = {"labels": self._labels()}
        self._some(meta, "uid", 0.3, lambda: self.word(("u1", "u2", "u3", "u4")))
        self._some(
            meta, "creationTimestamp", 0.3, lambda: self.word(("2026-01-01T00:00:00Z", "now"))
        )
        self._some(meta, "deletionTimestamp", 0.03, lambda: "2026-01-01T00:00:00Z")
        owner = {"kind": "ReplicaSet", "name": "r", "controller": True, "apiVersion": "apps/v1"}
        self._some(meta, "ownerReferences", 0.2, lambda: [owner])
        return meta

    def _named(self, kind: str, name: str, fields: Plain) -> Plain:
        meta = {"name": name, "namespace": "default"}
        return {"kind": kind, "metadata": meta, **fields}

    def _labels(self) -> dict[str, Plain]:
        return {self.word(KEYS): self.word(VALUES) for _ in range(self.random.randint(0, 3))}

    def _requirement(self, operators: tuple[str, ...] = OPERATORS) -> Plain:
        operator = self.word(operators)
        counts = {"Exists": (0, 0), "DoesNotExist": (0, 0), "Gt": (1, 1), "Lt": (1, 1)}
        least, most = (0, 3) if self._odd() else counts.get(operator, (1, 3))
        words = ("3", "-7") if operator in ("Gt", "Lt") else VALUES
        values = self.many(lambda: self.word(words), least, most)
        return {"key": self.word(KEYS), "operator": operator, "values": values}

    def _node_requirement(self) -> Plain:
        return self._requirement(NODE_OPERATORS)

    def _selector(self) -> Plain:
        if self.random.random() < 0.05:
            return None
        selector: dict[str, Plain] = {}
        self._some(selector, "matchLabels", 0.6, self._labels)
        self._some(selector, "matchExpressions", 0.5, lambda: self.many(self._requirement, 0, 2))
        return selector

    def _term(self) -> Plain:
        term: dict[str, Plain] = {}
        self._some(term, "matchExpressions", 0.8, lambda: self.many(self._node_requirement, 0, 2))
        field = {"key": "metadata.name", "operator": self.word(("In", "NotIn")), "values": ["n1"]}
        self._some(term, "matchFields", 0.2, lambda: [field])
        return term

    def _pod_term(self) -> Plain:
        term: dict[str, Plain] = {"topologyKey": self.word(KEYS)}
        self._some(term, "labelSelector", 0.9, self._selector)
        self._some(term, "namespaces", 0.2, lambda: self.many(lambda: self.word(VALUES), 0, 2))
        self._some(term, "namespaceSelector", 0.2, self._selector)
        self._some(term, "matchLabelKeys", 0.1, lambda: self.many(lambda: self.word(KEYS), 0, 2))
        self._some(term, "mismatchLabelKeys", 0.1, lambda: [self.word(KEYS)])
        return term

    def _affinity(self) -> Plain:
        affinity: dict[str, Plain] = {}
        self._some(affinity, "nodeAffinity", 0.5, self._node_affinity)
        for kind in ("podAffinity", "podAntiAffinity"):
            self._some(affinity, kind, 0.5, self._pod_affinity)
        return affinity

    def _node_affinity(self) -> Plain:
        terms = {"nodeSelectorTerms": self.many(self._term, 0, 2)}
        found: dict[str, Plain] = {}
        self._some(found, REQUIRED, 0.6, lambda: terms)
        self._some(
            found,
            PREFERRED,
            0.6,
            lambda: self.many(lambda: {"weight": self._number(), "preference": self._term()}, 0, 3),
        )
        return found

    def _pod_affinity(self) -> Plain:
        found: dict[str, Plain] = {}
        self._some(found, REQUIRED, 0.6, lambda: self.many(self._pod_term, 0, 2))
        self._some(
            found,
            PREFERRED,
            0.6,
            lambda: self.many(
                lambda: {"weight": self._number(), "podAffinityTerm": self._pod_term()}, 0, 2
            ),
        )
        return found

    def _spread(self) -> Plain:
        spread: dict[str, Plain] = {
            "maxSkew": self._number(),
            "topologyKey": self.word(KEYS),
            "whenUnsatisfiable": self.word(("DoNotSchedule", "ScheduleAnyway")),
        }
        self._some(spread, "labelSelector", 0.9, self._selector)
        self._some(spread, "minDomains", 0.2, self._number)
        self._some(spread, "nodeAffinityPolicy", 0.2, lambda: self.word(("Honor", "Ignore")))
        self._some(spread, "nodeTaintsPolicy", 0.2, lambda: self.word(("Honor", "Ignore")))
        self._some(spread, "matchLabelKeys", 0.2, lambda: self.many(lambda: self.word(KEYS), 0, 2))
        return spread

    def _toleration(self) -> Plain:
        toleration: dict[str, Plain] = {}
        self._some(toleration, "key", 0.7, lambda: self.word(KEYS))
        self._some(toleration, "operator", 0.7, lambda: self.word(("Exists", "Equal", "Gt", "Lt")))
        self._some(toleration, "value", 0.5, lambda: self.word(VALUES))
        self._some(toleration, "effect", 0.5, self._effect)
        self._some(toleration, "tolerationSeconds", 0.2, self._number)
        return toleration

    def _taint(self) -> Plain:
        return {"key": self.word(KEYS), "value": self.word(VALUES), "effect": self._effect()}

    def _effect(self) -> Plain:
        return self.word(("NoSchedule", "PreferNoSchedule", "NoExecute"))

    def _resources(self) -> dict[str, Plain]:
        chosen = [self.word(RESOURCES) for _ in range(self.random.randint(0, 3))]
        return {name: self._amount() for name in chosen}

    def _requirements(self) -> Plain:
        found: dict[str, Plain] = {}
        self._some(found, "requests", 0.8, self._resources)
        self._some(found, "limits", 0.3, self._resources)
        return found

    def _container(self) -> Plain:
        container: dict[str, Plain] = {
            "name": self.word(VALUES),
            "image": self.word(("web:1", "db")),
        }
        self._some(container, "resources", 0.7, self._requirements)
        self._some(container, "ports", 0.2, lambda: self.many(self._port, 0, 2))
        self._some(container, "restartPolicy", 0.1, lambda: self.word(("Always", "Never")))
        return container

    def _port(self) -> Plain:
        number = self.random.choice((80, 8080, 70000, -1)) if self._odd() else 8080
        port: dict[str, Plain] = {"containerPort": number, "hostPort": number}
        self._some(port, "hostIP", 0.3, lambda: self.word(("127.0.0.1", "0.0.0.0", "::")))
        self._some(port, "protocol", 0.3, lambda: self.word(("TCP", "UDP")))
        return port

    def _volume(self) -> Plain:
        sources: tuple[Plain, ...] = (
            {"persistentVolumeClaim": {"claimName": self.word(("claim", "other"))}},
            {"emptyDir": {}},
            {"ephemeral": {}},
            {"gcePersistentDisk": {"pdName": "d", "readOnly": self.random.random() < 0.5}},
            {"awsElasticBlockStore": {"volumeID": self.word(VALUES)}},
            {"rbd": {"monitors": [self.word(VALUES)], "image": "i", "pool": "p"}},
            {"iscsi": {"iqn": "q"}},
            {"image": {"reference": "web:1"}},
        )
        return {"name": self.word(VALUES), **self.random.choice(sources)}

    def _claim(self) -> Plain:
        claim: dict[str, Plain] = {
            "accessModes": [self.word(("ReadWriteOnce", "ReadWriteOncePod"))]
        }
        self._some(claim, "storageClassName", 0.8, lambda: self.word(("late", "")))
        self._some(claim, "volumeName", 0.3, lambda: self.word(("v", "w")))
        self._some(claim, "selector", 0.2, self._selector)
        self._some(claim, "resources", 0.8, lambda: {"requests": {"storage": self._amount()}})
        return claim

    def _persistent(self) -> Plain:
        volume: dict[str, Plain] = {
            "capacity": {"storage": self._amount()},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
        }
        affinity = {"required": {"nodeSelectorTerms": self.many(self._term, 0, 2)}}
        self._some(volume, "nodeAffinity", 0.5, lambda: affinity)
        self._some(volume, "csi", 0.5, lambda: {"driver": "d", "volumeHandle": self.word(VALUES)})
        self._some(volume, "claimRef", 0.3, lambda: {"namespace": "default", "name": "claim"})
        return volume

    def _class(self) -> Plain:
        topology = {"matchLabelExpressions": [{"key": self.word(KEYS), "values": ["a"]}]}
        found: dict[str, Plain] = {"provisioner": self.word(("d", "kubernetes.io/no-provisioner"))}
        mode = ("WaitForFirstConsumer", "Immediate")
        self._some(found, "volumeBindingMode", 0.8, lambda: self.word(mode))
        self._some(found, "allowedTopologies", 0.3, lambda: [topology])
        return found

    def _driver(self) -> Plain:
        return {"name": "d", "nodeID": "n0", "allocatable": {"count": self._number()}}
