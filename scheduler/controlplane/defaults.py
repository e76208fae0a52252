"""Defaults of the kinds that make pods, and of the small kinds around them.

One function per kind, found by the table `DEFAULTS` (by plural and group), for a private copy at
creation and at update.
"""

import base64
from collections.abc import Callable
from typing import Any, Final

from scheduler.controlplane.objects import Object
from scheduler.controlplane.poddefaults import fill_spec

Fill = Callable[[Object], None]

NO_NODE_INFO: Final = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
)


def _template(spec: Object) -> None:
    template = spec.get("template")
    if template is not None:
        template.setdefault("metadata", {})
        fill_spec(template.setdefault("spec", {}))


def _deployment(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    _template(spec)


def _replica_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)


def _replication_controller(obj: Object) -> None:
    _replica_set(obj)
    spec = obj["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _stateful_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        _claim(claim)
    _template(spec)


def _daemon_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    notes = dict(obj["metadata"].get("annotations") or {})
    notes.setdefault("deprecated.daemonset.template.generation", "1")
    obj["metadata"]["annotations"] = notes
    _template(spec)


def _job(obj: Object) -> None:
    _job_spec(obj.setdefault("spec", {}))


def _job_spec(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 2147483647 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    has_policy = "podFailurePolicy" in spec
    spec.setdefault("podReplacementPolicy", "Failed" if has_policy else "TerminatingOrFailed")
    _template(spec)


def name_job_pods(job: Object) -> None:
    """Set the selector and template labels that identify a new job's pods."""
    spec, meta = job["spec"], job["metadata"]
    spec.setdefault("manualSelector", False)
    if spec["manualSelector"]:
        return
    template_meta = spec["template"].setdefault("metadata", {})
    labels = dict(template_meta.get("labels") or {})
    labels["controller-uid"] = labels["batch.kubernetes.io/controller-uid"] = meta["uid"]
    labels["job-name"] = labels["batch.kubernetes.io/job-name"] = meta["name"]
    template_meta["labels"] = labels
    meta["labels"] = {**labels, **(meta.get("labels") or {})}
    if not spec.get("selector"):
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": meta["uid"]}}


def _cron_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = (spec.get("jobTemplate") or {}).get("spec")
    if template is not None:
        _template(template)


def _service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _claim(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _volume(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def _storage_class(obj: Object) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _csi_driver(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)


def _secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")
    plain: dict[str, str] | None = obj.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _priority_class(obj: Object) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _namespace(obj: Object) -> None:
    labels = dict(obj["metadata"].get("labels") or {})
    labels["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")
    obj["metadata"]["labels"] = labels


def _node(obj: Object) -> None:
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status.setdefault("nodeInfo", dict(NO_NODE_INFO))
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _autoscaler(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _device_claim(obj: Object) -> None:
    _device_requests(obj.get("spec") or {})


def _device_claim_template(obj: Object) -> None:
    spec = obj.get("spec") or {}
    if spec:
        spec.setdefault("metadata", {})
    _device_requests(spec.get("spec") or {})


def _device_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for exact in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if exact is not None:
                exact.setdefault("allocationMode", "ExactCount")
                if exact["allocationMode"] == "ExactCount":
                    exact.setdefault("count", 1)
                for toleration in exact.get("tolerations") or ():
                    toleration.setdefault("operator", "Equal")


def _limit_range(obj: Object) -> None:
    """Derive missing limits of containers: default from max, default request from default or
    min.
    """
    for limit in (obj.get("spec") or {}).get("limits") or ():
        if limit.get("type") != "Container":
            continue
        limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
        requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
        if limits:
            limit["default"] = limits
        if requests:
            limit["defaultRequest"] = requests


def _network_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _role_binding(obj: Object) -> None:
    reference: Any = obj.get("roleRef")
    if reference is not None:
        reference.setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def fill_shown(storage: str, obj: Object) -> None:
    """Put in the parts that kube-apiserver writes out also when they are empty."""
    for part, empty in _SHOWN.get(storage, {}).items():
        if part not in obj:
            obj[part] = dict(empty)


_SHOWN: Final[dict[str, dict[str, Object]]] = {
    "deployments.apps": {"status": {}},
    "replicasets.apps": {"status": {"replicas": 0}},
    "replicationcontrollers": {"status": {"replicas": 0}},
    "statefulsets.apps": {"status": {"replicas": 0, "availableReplicas": 0}},
    "daemonsets.apps": {
        "status": {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        }
    },
    "jobs.batch": {"status": {}},
    "cronjobs.batch": {"status": {}},
    "poddisruptionbudgets.policy": {
        "status": {
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }
    },
    "leases.coordination.k8s.io": {"spec": {}},
    "networkpolicies.networking.k8s.io": {"spec": {}},
    "ingresses.networking.k8s.io": {"status": {"loadBalancer": {}}},
    "horizontalpodautoscalers.autoscaling": {
        "status": {"desiredReplicas": 0, "currentMetrics": None}
    },
    "resourcequotas": {"spec": {}, "status": {}},
    "resourceclaims.resource.k8s.io": {"status": {}},
    "volumeattachments.storage.k8s.io": {"status": {"attached": False}},
}


DEFAULTS: Final[dict[str, Fill]] = {
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "replicationcontrollers": _replication_controller,
    "statefulsets.apps": _stateful_set,
    "daemonsets.apps": _daemon_set,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "storageclasses.storage.k8s.io": _storage_class,
    "csidrivers.storage.k8s.io": _csi_driver,
    "secrets": _secret,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "limitranges": _limit_range,
    "namespaces": _namespace,
    "nodes": _node,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "networkpolicies.networking.k8s.io": _network_policy,
    "resourceclaims.resource.k8s.io": _device_claim,
    "resourceclaimtemplates.resource.k8s.io": _device_claim_template,
    "rolebindings.rbac.authorization.k8s.io": _role_binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _role_binding,
}
