"""Manifests of workloads by seed, and the cluster that they are created in."""

from random import Random
from typing import Any

Plain = dict[str, Any]
KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")
NOTES = {"storageclass.kubernetes.io/is-default-class": "true"}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def _node(name: str, taints: tuple[tuple[str, str], ...] = (), **spec: Any) -> Plain:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "50"}
    labels = {HOST: name, ZONE: f"z{len(name) % 2}", "kind": "small" if taints else "large"}
    spec["taints"] = [{"key": key, "effect": effect} for key, effect in taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


_NODE_TAINT = "node.kubernetes.io/"
NODES = (
    _node("a"),
    _node("bb"),
    _node("cordoned", ((f"{_NODE_TAINT}unschedulable", "NoSchedule"),), unschedulable=True),
    _node("pressed", ((f"{_NODE_TAINT}disk-pressure", "NoSchedule"),)),
    _node("down", ((f"{_NODE_TAINT}unreachable", "NoExecute"),)),
    _node("walled", (("gpu", "NoSchedule"),)),
    _node("nonet", ((f"{_NODE_TAINT}network-unavailable", "NoSchedule"),)),
)
CLUSTER = (
    *NODES,
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
        "scheduling": {
            "nodeSelector": {"kind": "large"},
            "tolerations": [
                {"key": "gpu", "operator": "Exists"},
                {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
            ],
        },
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "plain"},
        "handler": "runc",
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
        "preemptionPolicy": "Never",
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "usual"},
        "value": 7,
        "globalDefault": True,
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "std", "annotations": NOTES},
        "provisioner": "d.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
)


class Case:
    """One workload in its own namespace, with the other objects of the case."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.namespace = f"case-{seed}"
        self._rng = Random(f"workload {seed}")
        self.kind = KINDS[seed % len(KINDS)]
        self.beside: list[Plain] = []
        if self._rng.random() < 0.4:
            self.beside.append(self._limit_range())
        self.workload = self._workload()

    @property
    def objects(self) -> list[Plain]:
        """Return all objects of the case but the namespace."""
        return [*self.beside, self.workload]

    def _one(self, *choices: Any) -> Any:
        return self._rng.choice(choices)

    def _object(self, kind: str, version: str, name: str, **more: Any) -> Plain:
        meta = {"name": name, "namespace": self.namespace}
        return {"apiVersion": version, "kind": kind, "metadata": meta, **more}

    def _limit_range(self) -> Plain:
        limit: Plain = {"type": "Container"}
        if self._one(True, False):
            limit["default"] = {"cpu": self._one("500m", "2"), "memory": "512Mi"}
        if self._one(True, False):
            limit["defaultRequest"] = {"cpu": "100m"}
        if self._one(True, False):
            limit["max"] = {"cpu": "64", "memory": "128Gi"}
        if self._one(True, False):
            limit["min"] = {"cpu": "1m"}
        return self._object("LimitRange", "v1", "limits", spec={"limits": [limit]})

    def _workload(self) -> Plain:
        template = self._template()
        selector = {"matchLabels": {"app": "web"}}
        spec: Plain = {"selector": selector, "template": template}
        if self.kind in ("Deployment", "StatefulSet"):
            spec["replicas"] = self._rng.randint(0, 3)
        if self.kind == "StatefulSet":
            spec |= {
                "serviceName": "web",
                "podManagementPolicy": self._one("Parallel", "OrderedReady"),
            }
            if self._one(True, False):
                spec["ordinals"] = {"start": self._one(0, 2)}
            if self._one(True, False):
                spec["volumeClaimTemplates"] = [
                    {"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": self._claim()}
                ]
        if self.kind in ("Job", "CronJob"):
            spec = self._job(template)
        if self.kind == "CronJob":
            spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}}
        version = "batch/v1" if self.kind in ("Job", "CronJob") else "apps/v1"
        return self._object(self.kind, version, "web", spec=spec)

    def _job(self, template: Plain) -> Plain:
        template["spec"]["restartPolicy"] = "Never"
        spec: Plain = {"template": template}
        if self._one(True, False):
            spec["parallelism"] = self._rng.randint(0, 4)
        if self._one(True, False):
            spec["completions"] = self._rng.randint(1, 4)
            spec["completionMode"] = self._one("Indexed", "NonIndexed")
        return spec

    def _template(self) -> Plain:
        spec: Plain = {
            "containers": [self._container(f"c{n}") for n in range(self._rng.randint(1, 3))]
        }
        if self._one(True, False):
            spec["initContainers"] = [self._container("init")]
            if self._one(True, False):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        self._classes(spec)
        self._placement(spec)
        self._volumes(spec)
        return {"metadata": {"labels": {"app": "web", "v": self._one("1", "2")}}, "spec": spec}

    def _container(self, name: str) -> Plain:
        made: Plain = {
            "name": name,
            "image": self._one("x", "x:1", "r.example.com/x@sha256:" + "0" * 64),
        }
        amounts = {"cpu": self._one("100m", "0.5", "1"), "memory": self._one("64Mi", "1Gi", "128M")}
        chosen = self._rng.randint(0, 4)
        if chosen == 1:
            made["resources"] = {"requests": amounts}
        elif chosen == 2:
            made["resources"] = {"limits": amounts}
        elif chosen == 3:
            made["resources"] = {"requests": {"cpu": "50m"}, "limits": amounts}
        if self._one(True, False, False):
            made["ports"] = [{"containerPort": 8000 + self._rng.randint(0, 999)}]
        return made

    def _classes(self, spec: Plain) -> None:
        if self._one(True, False, False):
            spec["runtimeClassName"] = self._one("kata", "plain")
        if self._one(True, False, False):
            spec["priorityClassName"] = self._one("high", "usual", "system-node-critical")
        if self._one(True, False, False):
            level = {"cpu": "8", "memory": "32Gi"}
            spec["resources"] = self._one(
                {"limits": level}, {"requests": level}, {"limits": {"cpu": "9"}}
            )
        if self._one(True, False, False, False):
            spec["hostNetwork"] = True
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                container.pop("ports", None)

    def _placement(self, spec: Plain) -> None:
        if self._one(True, False, False):
            spec["nodeSelector"] = {"kind": "large"}
        if self._one(True, False, False):
            spec["tolerations"] = [
                self._one(
                    {"operator": "Exists"},
                    {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": f"{_NODE_TAINT}not-ready", "operator": "Exists", "effect": "NoExecute",
                        "tolerationSeconds": 5},
                    {"key": "gpu", "value": "v"},
                )
            ]  # fmt: skip
        if self._one(True, False, False):
            term = {"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": ["bb"]}]}
            required = {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
            }
            spec["affinity"] = {"nodeAffinity": required}
        keys = [_REVISION[self.kind]]
        selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
        if self._one(True, False):
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    **selector,
                }
                | self._one({}, {"matchLabelKeys": keys}, {"matchLabelKeys": [*keys, "v"]})
            ]
        if self._one(True, False):
            term = {"topologyKey": HOST, **selector} | self._one(
                {}, {"matchLabelKeys": keys}, {"mismatchLabelKeys": ["v"]}
            )
            anti = self._one(
                {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 5, "podAffinityTerm": term}
                    ]
                },
            )
            spec.setdefault("affinity", {})["podAntiAffinity"] = anti

    def _claim(self) -> Plain:
        claim: Plain = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        named: Plain = self._one({}, {"storageClassName": "std"}, {"storageClassName": ""})
        return claim | named

    def _volumes(self, spec: Plain) -> None:
        volumes = []
        if self._one(True, False, False):
            template = {"metadata": {"labels": {"of": "v"}}, "spec": self._claim()}
            volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}})
        if self._one(True, False, False):
            claim = self._object("PersistentVolumeClaim", "v1", "shared", spec=self._claim())
            self.beside.append(claim)
            volumes.append({"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}})
        if self._one(True, False, False):
            volumes.append({"name": "empty"})
        if volumes:
            spec["volumes"] = volumes
        if self._one(True, False, False):
            request = {
                "name": "r",
                "exactly": {"deviceClassName": "gpu", "tolerations": [{"key": "k"}]},
            }
            devices = {"spec": {"devices": {"requests": [request]}}}
            self.beside.append(
                self._object("ResourceClaimTemplate", "resource.k8s.io/v1", "gpu", spec=devices)
            )
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]


_REVISION = {
    "Deployment": "pod-template-hash",
    "StatefulSet": "controller-revision-hash",
    "DaemonSet": "controller-revision-hash",
    "Job": "batch.kubernetes.io/controller-uid",
    "CronJob": "batch.kubernetes.io/controller-uid",
}


def created(case: Case) -> list[Plain]:
    """Return the objects as a client creates them: of a CronJob the Job that `kubectl create job`
    makes.
    """
    if case.kind != "CronJob":
        return case.objects
    job = {**case.workload, "kind": "Job", "spec": case.workload["spec"]["jobTemplate"]["spec"]}
    return [*case.beside, job]


def expected_pods(case: Case) -> bool:
    """Return whether all pods of a workload exist although none becomes ready."""
    return bool(case.workload["spec"].get("podManagementPolicy") != "OrderedReady")
