"""The Helm chart: the objects it renders, the values it rejects, and the daemon's configuration."""

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from scheduler.about import VERSION
from scheduler.cli.agent import agent as agents
from scheduler.config import load
from scheduler.config.presets import GPU
from scheduler.framework.registry import Registry
from scheduler.groups.status.lifecycle import GroupRecord, results
from scheduler.intree import IN_TREE
from scheduler.objects.kinds import DERIVABLE

CHART = Path(__file__).parents[2] / "charts" / "trellis"
HELM = shutil.which(
    "helm", path=os.environ.get("KUBEBUILDER_ASSETS", "") + os.pathsep + os.environ["PATH"]
)
PROFILES = ("plain", "gpu", "network", "sakkara", "numa", "load", "all")
REGISTRY = Registry(IN_TREE)
# The chart requires a registry; a later value replaces this one.
IMAGE = "image.registry=registry.example"
pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not installed (make tools)")
Json = dict[str, Any]

AGENTS = (
    "agents.load.enabled=true", "agents.netperf.enabled=true", "agents.netperf.keySecret.name=key",
    "agents.netperf.pushgateway=http://push:9091", "agents.bandwidth.enabled=true",
    "agents.bandwidth.assume=10G", "agents.bandwidth.interface=eth0",
    "networkPolicy.enabled=true", "serviceMonitor.enabled=true", "imagePullSecrets[0].name=pull",
)  # fmt: skip
COMBINATIONS: tuple[tuple[str, ...], ...] = (
    (),
    *(("profile=" + name,) for name in PROFILES),
    ("replicaCount=1",),
    ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "networkPolicy.enabled=true"),
    ("grafanaDashboard.enabled=true",),
    ("agents.load.enabled=true", "profile=load"),
    AGENTS,
    ("serviceAccount.create=false", "rbac.create=false", "crds.install=false"),
    ("fullnameOverride=sched", "image.registry=r.example", "image.digest=sha256:" + "a" * 64),
    ("rbac.secrets[0].namespace=shop", "rbac.secrets[0].name=token"),
    ("rbac.configMaps[0].namespace=shop", "rbac.configMaps[0].name=latencies"),
    ("rbac.groups.volcano=true", "profile=sakkara", "rbac.groups.derive={JobSet,MPIJob}"),
    ("rbac.groups.kai=true", "rbac.groups.grove=true"),
    (
        "podMonitor.enabled=true",
        "podMonitor.tokenSecret=t",
        "networkPolicy.enabled=true",
        "networkPolicy.egress.enabled=true",
    ),
    ("rbac.aggregate=false", "commonLabels.team=ml", "terminationGracePeriodSeconds=60"),
    ("rbac.groups.namespaces={shop,default}", "rbac.load.enabled=false", "rbac.numa.enabled=true"),
    ("rbac.admissionPolicies=false", "rbac.groups.allowUnguarded=true"),
)
REFUSED = (
    "profile=fast", "replicaCount=-1", "replicaCount=two", "schedulerName=",
    "schedulerName=Bad_Name",
    "image.pullPolicy=Sometimes", "image.digest=sha256:1", "image.repositry=x", "service.port=0",
    "service.type=Any", "serviceMonitor.interval=30", "serviceMonitor.enabled=maybe",
    "prometheusRule.runbookUrl=ftp://x", "podDisruptionBudget.minAvailable=half",
    "grafanaDashboard.enabled=yes please", "grafanaDashboard.folder=x",
    "crds.instal=true", "agents.load.enable=true", "agents.netperf.enabled=true",
    "agents.bandwidth.assume=fast",
    "page.readers[0].kind=Everybody", "page.reader=x", "rbac.secrets[0].name=x",
    "rbac.groups.namespace=a", "rbac.groups.derive={Jobset}", "rbac.numa.enabled=maybe",
    "extraArgs=--v", "replicas=3", "tracing.endpoint=collector:4318", "tracing.sampling=1",
)  # fmt: skip


@functools.cache
def render(*values: str) -> list[Json]:
    """Render the chart; its documents."""
    done = helm("template", "x", str(CHART), "--namespace", "sys", *sets((IMAGE, *values)))
    assert 0 == done.returncode, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(HELM), *words], capture_output=True, text=True, check=False, timeout=60
    )


def sets(values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def test_lint_has_nothing_to_say():
    """`helm lint --strict` passes."""
    done = helm("lint", "--strict", str(CHART))
    assert 0 == done.returncode, done.stdout


def test_an_installation_without_a_registry_is_refused():
    """No public image exists: one sentence states the value to set and how to build an image."""
    done = helm("template", "x", str(CHART))

    assert 0 != done.returncode
    assert "image.registry is empty and no public image of Trellis exists" in done.stderr
    assert "set image.registry (docs/howto/install.md)" in done.stderr


def test_the_image_is_the_registry_the_repository_and_the_version():
    """A digest replaces the tag."""
    digest = "sha256:" + "a" * 64
    assert f"registry.example/trellis:{VERSION}" in images(render())
    assert f"r.example/trellis@{digest}" in images(
        render("image.registry=r.example", f"image.digest={digest}")
    )


def images(documents: list[Json]) -> set[str]:
    """Return the images of the Deployment's containers."""
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    return {one["image"] for one in deployment["spec"]["template"]["spec"]["containers"]}


@pytest.mark.parametrize("values", COMBINATIONS, ids="+".join)
def test_every_combination_renders_objects_with_our_labels(values: tuple[str, ...]):
    """Names are unique, our objects have the recommended labels, and the configuration is one of
    ours.
    """
    documents = render(*values)
    names = [
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        for one in documents
    ]

    assert len(set(names)) == len(names)
    for one in documents:
        if one["kind"] != "CustomResourceDefinition":
            assert "trellis" == one["metadata"]["labels"]["app.kubernetes.io/name"], one
    maps = (one["data"] for one in documents if one["kind"] == "ConfigMap")
    (text,) = (data["config.yaml"] for data in maps if "config.yaml" in data)
    loaded = load(text, file="config.yaml", registry=REGISTRY)
    assert ["trellis"] == [spec.scheduler_name for spec in loaded.profiles]


@pytest.mark.parametrize("value", REFUSED)
def test_wrong_values_are_refused_by_name(value: str):
    """The schema names the key."""
    done = helm("template", "x", str(CHART), *sets((IMAGE, value)))

    assert 0 != done.returncode
    path = value.partition("=")[0].replace("[0]", "").split(".")
    assert any(part in done.stderr for part in path[1:] or path), done.stderr


def test_rights_follow_the_profile():
    """Only groups need ConfigMaps and pods' labels; no profile needs all rights, or another's
    role.
    """
    for values in (("profile=plain",), ("profile=all", "rbac.groups.enabled=false")):
        assert not any(writes_groups(rule) for rule in rules(render(*values)))
    for name in PROFILES:
        documents = render(f"profile={name}")
        with_groups = name in ("sakkara", "gpu", "all")
        assert with_groups == any(map(writes_groups, rules(documents)))
        for rule in rules(documents):
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])
            assert "secrets" not in rule["resources"]
        roles = {one["roleRef"]["name"] for one in documents if one["kind"].endswith("RoleBinding")}
        assert not any(role.startswith("system:") for role in roles)


def test_tracing_is_part_of_the_configuration():
    """An endpoint of a collector adds `tracing` to the configuration that the chart writes."""
    (config,) = [one for one in render() if "config.yaml" in one.get("data", {})]
    assert (
        load(
            config["data"]["config.yaml"], file="config.yaml", registry=REGISTRY
        ).trellis.tracing.endpoint
        == ""
    )

    url = "http://collector.observability:4318/v1/traces"
    values = (f"tracing.endpoint={url}", "tracing.samplingRatePerMillion=500")
    (config,) = [one for one in render(*values) if "config.yaml" in one.get("data", {})]
    found = load(
        config["data"]["config.yaml"], file="config.yaml", registry=REGISTRY
    ).trellis.tracing
    assert (url, 500) == (found.endpoint, found.sampling_rate_per_million)


def test_the_role_for_the_page_is_bound_only_on_request():
    """The readers of the page are subjects of one binding; the scheduler's account is none
    of them.
    """
    (role,) = [one for one in render() if one["metadata"]["name"].endswith("-page")]
    assert ("ClusterRole", [{"nonResourceURLs": ["/ui/*"], "verbs": ["get", "post"]}]) == (
        role["kind"],
        role["rules"],
    )
    named = render(
        "page.readers[0].kind=Group",
        "page.readers[0].name=ops",
        "page.readers[1].kind=ServiceAccount",
        "page.readers[1].name=viewer",
    )
    (binding,) = [
        one for one in named if one["kind"] == "ClusterRoleBinding" and "page" in str(one)
    ]
    api = "rbac.authorization.k8s.io"
    assert role["metadata"]["name"] == binding["roleRef"]["name"]
    assert {"apiGroup": api, "kind": "Group", "name": "ops"} == binding["subjects"][0]
    assert ("ServiceAccount", "viewer") == tuple(
        binding["subjects"][1][field] for field in ("kind", "name")
    )
    assert binding["subjects"][1]["namespace"]
    off = render("page.enabled=false", "page.readers[0].kind=Group", "page.readers[0].name=ops")
    assert not [one for one in off if one["metadata"]["name"].endswith("-page")]


def writes_groups(rule: Json) -> bool:
    return "patch" in rule["verbs"] and not {"configmaps", "pods"}.isdisjoint(rule["resources"])


def test_groups_are_written_only_where_they_live():
    """Groups' objects are written in their namespaces by roles, everywhere only under policies, and
    otherwise with an explicit statement.
    """
    named = render("rbac.groups.namespaces={a,b}", "rbac.admissionPolicies=false")
    spaces = [
        one["metadata"].get("namespace")
        for one in named
        if one["kind"] in ("Role", "ClusterRole") and any(map(writes_groups, one["rules"]))
    ]
    assert ["a", "b"] == spaces

    done = helm("template", "x", str(CHART), *sets((IMAGE, "rbac.admissionPolicies=false")))
    assert 0 != done.returncode
    assert "name the namespaces of groups in rbac.groups.namespaces" in done.stderr
    accepted = render("rbac.admissionPolicies=false", "rbac.groups.allowUnguarded=true")
    kinds = {one["kind"] for one in accepted}
    assert "ValidatingAdmissionPolicy" not in kinds


def test_workloads_are_read_where_groups_are_derived_from_them():
    """One rule per kind of object, whichever values need it; none without the value."""
    words = ("JobSet", "TrainJob", "LeaderWorkerSet", "RayCluster", "RayJob", "MPIJob", "Job")
    objects = {(one.group, one.plural) for one in DERIVABLE}

    def read(*values: str) -> list[tuple[str, str]]:
        found = [(rule["apiGroups"][0], rule["resources"][0]) for rule in rules(render(*values))]
        return sorted(pair for pair in found if pair in objects)

    assert sorted(objects) == read(f"rbac.groups.derive={{{','.join(words)}}}")
    assert [("ray.io", "rayclusters")] == read("rbac.groups.derive={RayJob}")
    assert [] == read()


def test_the_policy_names_what_is_written_about_groups():
    """The policy lists every key that the code writes, and no other."""
    (policy,) = (
        one
        for one in render()
        if one["kind"] == "ValidatingAdmissionPolicy" and one["metadata"]["name"].endswith("maps")
    )
    variables = policy["spec"]["variables"]
    (own,) = (one["expression"] for one in variables if one["name"] == "own")
    written = {*results([], GroupRecord()), "preemptor"}

    assert written == set(json.loads(own))


def test_agents_may_do_what_they_need_and_no_more():
    """Netperf lists endpoints of its namespace, bandwidth writes the status of nodes.

    No secrets.
    """
    found = {
        (one["kind"], one["metadata"]["name"]): [
            (rule["resources"], rule["verbs"]) for rule in one["rules"]
        ]
        for one in render(*AGENTS)
        if one["kind"] in ("Role", "ClusterRole") and "-agent" in one["metadata"]["name"]
    }

    assert found.pop(("ClusterRole", "x-trellis-load-agent"))
    assert found == {
        ("Role", "x-trellis-netperf-agent"): [(["endpointslices"], ["list"])],
        ("ClusterRole", "x-trellis-bandwidth-agent"): [
            (["nodes"], ["get"]),
            (["nodes/status"], ["patch"]),
        ],
    }


@pytest.mark.parametrize("agent", ["netperf", "bandwidth", "load"])
def test_the_command_line_knows_the_words_of_the_agents(agent: str):
    """The program accepts the arguments of the DaemonSet."""
    (found,) = (
        one
        for one in render(*AGENTS)
        if one["kind"] == "DaemonSet" and one["metadata"]["name"] == f"x-trellis-{agent}-agent"
    )
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    word, name, *flags = container["args"]
    command: Any = typer.main.get_command(agents)
    known = {flag for one in command.commands[name].params for flag in one.opts}

    assert (word, name) == ("agent", agent)
    assert {flag.partition("=")[0] for flag in flags if flag.startswith("--")} <= known
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert not container["securityContext"]["allowPrivilegeEscalation"]


def rules(documents: list[Json]) -> list[Json]:
    """Return the rules about objects; the page's role has none."""
    roles = (one for one in documents if one["kind"] == "ClusterRole")
    return [rule for one in roles for rule in one["rules"] if "resources" in rule]


def test_definitions_are_kept_and_are_those_of_crds():
    """The only source of the schemas is crds/."""
    found = {
        one["metadata"]["name"]: one
        for one in render()
        if one["kind"] == "CustomResourceDefinition"
    }
    sources = [
        yaml.safe_load(path.read_text())
        for path in sorted((CHART.parents[1] / "crds").glob("*.yaml"))
    ]

    assert {one["metadata"]["name"] for one in sources} == set(found)
    for source in sources:
        rendered = found[source["metadata"]["name"]]
        assert "keep" == rendered["metadata"]["annotations"]["helm.sh/resource-policy"]
        assert json.dumps(source["spec"], sort_keys=True) == json.dumps(
            rendered["spec"], sort_keys=True
        )


def test_alerts_are_about_the_release_and_lead_to_your_runbooks():
    """The file's job and address are replaced everywhere, and no other text is."""
    documents = render(
        "prometheusRule.enabled=true", "prometheusRule.runbookUrl=https://w.example/r/"
    )
    (rule,) = (one for one in documents if one["kind"] == "PrometheusRule")
    found = json.dumps(rule["spec"])
    source = json.dumps(yaml.safe_load((CHART / "files" / "alerts.yaml").read_text()))

    assert 'job=\\"trellis\\"' not in found
    mine = re.sub(r"https://w.example/r/(\w+)", r"docs/runbooks/\1.md", found)
    assert mine.replace("x-trellis", "trellis") == source
    (rule,) = (
        one for one in render("prometheusRule.enabled=true") if one["kind"] == "PrometheusRule"
    )
    assert json.dumps(rule["spec"]).replace("x-trellis", "trellis") == source


def test_the_pod_is_restricted():
    """The pod runs not as root, without privileges, with a read-only root and default seccomp."""
    (deployment,) = (one for one in render() if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert "RuntimeDefault" == pod["securityContext"]["seccompProfile"]["type"]
    assert {"drop": ["ALL"]} == container["securityContext"]["capabilities"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]


@pytest.mark.parametrize("values", [["profile=gpu"], ["config=x"], ["profile=plain"]])
def test_the_history_of_pods_may_be_written_where_it_may_be_named(values: list[str]):
    """The role permits PodMixHistories unless the profile is plain: the profile gpu names one, and
    a custom configuration may.
    """
    rules = [
        rule
        for one in render(*values)
        if one["kind"] == "ClusterRole" and not one["metadata"]["name"].endswith(("-view", "-edit"))
        for rule in one["rules"]
    ]
    verbs = [set(one["verbs"]) for one in rules if "podmixhistories" in one.get("resources", ())]

    assert verbs == ([] if "profile=plain" in values else [{"list", "watch", "create", "patch"}])


def test_the_profile_gpu_is_that_of_the_daemon():
    """`--set profile=gpu` and `trellis run --profile gpu` score by the same plugins."""
    (config,) = (one for one in render("profile=gpu") if one["kind"] == "ConfigMap")
    of_chart = load(config["data"]["config.yaml"], file="chart", registry=REGISTRY).profiles[0]
    of_daemon = load(GPU, file="preset", registry=REGISTRY).profiles[0]
    for point in ("preScore", "score", "filter"):
        assert of_daemon.plugins[point] == of_chart.plugins[point], point
    assert of_daemon.args["FragmentationAware"] == of_chart.args["FragmentationAware"]


def test_labels_and_the_end_of_a_pod_are_values():
    """Every object has the common labels; a stopped pod has time for the bindings it has begun."""
    documents = render("commonLabels.team=ml", "terminationGracePeriodSeconds=60")
    labelled = [one for one in documents if one["kind"] in ("Deployment", "Service", "ConfigMap")]
    assert all("ml" == one["metadata"]["labels"]["team"] for one in labelled)
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    assert 60 == deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert "team" not in deployment["spec"]["selector"]["matchLabels"]
    roles = [one["metadata"]["name"] for one in documents if one["kind"] == "ClusterRole"]
    assert {"view", "edit"} <= {name.rpartition("-")[2] for name in roles}


def test_a_serving_certificate_of_cert_manager_is_verified_by_monitors():
    """The certificate is mounted, reloaded by the daemon, and names the Service; without one
    nothing changes.
    """
    documents = render(
        "servingCertificate.certManager.enabled=true",
        "servingCertificate.certManager.issuerRef.name=ca",
        "serviceMonitor.enabled=true",
    )
    by_kind = {one["kind"]: one for one in documents}
    certificate, monitor = by_kind["Certificate"]["spec"], by_kind["ServiceMonitor"]["spec"]
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    tls = monitor["endpoints"][0]["tlsConfig"]

    assert certificate["secretName"] == tls["ca"]["secret"]["name"]
    assert tls["serverName"] in certificate["dnsNames"]
    assert {"secret": {"secretName": certificate["secretName"]}, "name": "tls"} in pod["volumes"]
    assert "--tls-cert-file=/etc/trellis-tls/tls.crt" in pod["containers"][0]["args"]
    assert "trellis-tls" not in str(render())


def test_the_page_has_an_address_by_ingress_or_gateway():
    """Only /ui is reachable, at the HTTPS port; a missing host or Gateway is reported."""
    documents = render(
        "ingress.enabled=true",
        "ingress.host=trellis.example",
        "gateway.enabled=true",
        "gateway.parentRefs[0].name=public",
    )
    by_kind = {one["kind"]: one for one in documents}
    (path,) = by_kind["Ingress"]["spec"]["rules"][0]["http"]["paths"]
    (rule,) = by_kind["HTTPRoute"]["spec"]["rules"]

    assert ("/ui", "https") == (path["path"], path["backend"]["service"]["port"]["name"])
    assert [{"path": {"type": "PathPrefix", "value": "/ui"}}] == rule["matches"]
    for values, text in ((("ingress",), "ingress.host"), (("gateway",), "gateway.parentRefs")):
        words = [f"{one}.enabled=true" for one in values] + ["image.registry=r.example"]
        done = helm("template", "x", str(CHART), *sets(tuple(words)))
        assert 0 != done.returncode
        assert f"{text} is empty" in done.stderr
