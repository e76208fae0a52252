"""The flags, arguments and help of every verb.

The module that a verb names here does the work. It is imported when the verb is called, not for its
help.
"""

from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from scheduler.cli import flags
from scheduler.cli.command import Command
from scheduler.cli.completing import complete_nodes

BindAddress = Annotated[str, typer.Option("--bind-address", help="Where the endpoints listen.")]
SecurePort = Annotated[
    int,
    typer.Option("--secure-port", min=-1, max=65535, help="Endpoints; 0: none, -1: any free port."),
]
CertFile = Annotated[
    str, typer.Option("--tls-cert-file", help="The certificate; by default Trellis signs one.")
]
KeyFile = Annotated[str, typer.Option("--tls-private-key-file", help="The certificate's key.")]
ClientCaFile = Annotated[
    str, typer.Option("--client-ca-file", help="The CA of client certificates.")
]
LeaderElect = Annotated[
    bool | None, typer.Option("--leader-elect/--no-leader-elect", help="Override the file.")
]
FeatureGates = Annotated[
    str, typer.Option("--feature-gates", help="A=true,B=false; added to those of the file.")
]
DecisionLog = Annotated[
    str, typer.Option("--decision-log", help="Write events and effects here for replay.")
]


class Preset(StrEnum):
    """A configuration by its name."""

    DEFAULT = "default"
    GPU = "gpu"


PresetFlag = Annotated[
    Preset,
    typer.Option("--profile", help="A configuration by name, without a file.", show_choices=True),
]


class RunFlags(NamedTuple):
    """Run the scheduler: the daemon and its endpoints."""

    config: flags.ConfigFlag = ""
    profile: PresetFlag = Preset.DEFAULT
    kubeconfig: flags.KubeconfigFlag = ""
    context: flags.ContextFlag = ""
    bind_address: BindAddress = "0.0.0.0"  # noqa: S104 - scrapers and probes come from other nodes
    secure_port: SecurePort = 10259
    tls_cert_file: CertFile = ""
    tls_private_key_file: KeyFile = ""
    client_ca_file: ClientCaFile = ""
    leader_elect: LeaderElect = None
    feature_gates: FeatureGates = ""
    decision_log: DecisionLog = ""
    log_level: flags.LogLevelFlag = "info"
    log_format: flags.LogFormatFlag = "auto"


run = Command(RunFlags, "scheduler.cli.verbs.start.run.run")


class DemoFlags(NamedTuple):
    """Play a narrated scenario in an embedded cluster."""

    once: Annotated[
        bool, typer.Option("--once", help="End with a summary; exit 0 only on success.")
    ] = False
    name: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="The same as --scenario.")
    ] = None
    scenario: Annotated[
        str, typer.Option("--scenario", help="A folder of docs/examples, or a scenario file.")
    ] = "demo"
    is_listing: Annotated[bool, typer.Option("--list", help="List the scenarios instead.")] = False


demo = Command(DemoFlags, "scheduler.cli.verbs.start.demo.demo")


class TiesChoice(StrEnum):
    """How ties between equally good nodes are broken."""

    NAME = "name"
    UID = "uid"


class ResultForm(StrEnum):
    """How a result is printed: as by other verbs, as a page for a browser, or as objects for an
    autoscaler.
    """

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    HTML = "html"
    PROVISIONING_REQUEST = "provisioning-request"
    CAPACITY_BUFFER = "capacity-buffer"

    @property
    def is_for_autoscalers(self) -> bool:
        """Return whether the output is objects that request nodes from an autoscaler."""
        return self in (ResultForm.PROVISIONING_REQUEST, ResultForm.CAPACITY_BUFFER)


FormFlag = Annotated[
    ResultForm,
    typer.Option(
        "--output",
        "-o",
        help="How to print the result; html: with --against or --trace; provisioning-request and "
        "capacity-buffer: with --offer-nodes.",
        show_choices=True,
    ),
]


class SimulateFlags(NamedTuple):
    """Place the pending pods of the cluster or of a snapshot, without changing anything."""

    snapshot: flags.SnapshotFlag = None
    filename: flags.PodsFlag = None
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    config: flags.ConfigFlag = ""
    against: Annotated[
        str, typer.Option("--against", metavar="F", help="Another configuration to compare with.")
    ] = ""
    batch: Annotated[
        str, typer.Option("--batch", metavar="F", help="One case per line, JSON; - is stdin.")
    ] = ""
    trace: Annotated[
        str,
        typer.Option(
            "--trace", metavar="F", help="Simulate arrivals: CSV or manifests; - is stdin."
        ),
    ] = ""
    details: Annotated[
        bool, typer.Option("--details", help="Every node's verdict and scores, for every pod.")
    ] = False
    ties: Annotated[
        TiesChoice, typer.Option("--ties", help="Equal nodes: lowest name, or as the daemon.")
    ] = TiesChoice.NAME
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Equal nodes: at random, repeatable.")
    ] = None
    nodes: flags.NodeFlags = flags.NodeFlags()
    now: flags.NowFlag = ""
    kubernetes: flags.KubernetesFlag = ""
    output: FormFlag = ResultForm.TABLE


simulate = Command(SimulateFlags, "scheduler.cli.verbs.plan.simulate.simulate")


WatchFlag = Annotated[
    bool, typer.Option("--watch", "-w", help="Print the result again when it changes.")
]


class ExplainFlags(NamedTuple):
    """Explain why a pod or a group is where it is, or why it is pending."""

    words: flags.TargetArgument = None
    namespace: flags.TargetNamespaceFlag = ""
    watch: WatchFlag = False
    node: Annotated[
        str,
        typer.Option("--node", metavar="N", help="This node only.", autocompletion=complete_nodes),
    ] = ""
    snapshot: flags.SnapshotFlag = None
    filename: flags.PodsFlag = None
    config: flags.ConfigFlag = ""
    now: flags.NowFlag = ""
    kubernetes: flags.KubernetesFlag = ""
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    past: flags.PastFlag = False
    where: flags.DaemonFlags = flags.DaemonFlags()
    output: flags.OutputFlag = flags.Output.TABLE


explain = Command(ExplainFlags, "scheduler.cli.verbs.observe.explain.explain")


class HistoryFlags(NamedTuple):
    """List the attempts at a pod, oldest first: from the running daemon, or from a decision log."""

    words: flags.TargetArgument = None
    namespace: flags.TargetNamespaceFlag = ""
    filename: flags.PodsFlag = None
    decision_log: flags.DecisionLogFlag = ""
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    where: flags.DaemonFlags = flags.DaemonFlags()
    output: flags.OutputFlag = flags.Output.TABLE


history = Command(HistoryFlags, "scheduler.cli.verbs.observe.history.history")


ShapeFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        metavar="F",
        help="A pod, a workload (one of its pods counts) or a group, and what it needs.",
    ),
]
LimitFlag = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", help="Stop counting at N: 1000, at most 10000."),
]
WantFlag = Annotated[
    int | None,
    typer.Option("--want", metavar="N", help="Exit code 3 if fewer than N fit."),
]


class ShapeFlags(NamedTuple):
    """A shape without a manifest."""

    cpu: Annotated[str, typer.Option("--cpu", metavar="C", help="CPUs of a pod: 4, 500m.")] = ""
    memory: Annotated[str, typer.Option("--memory", metavar="M", help="Memory of a pod: 8Gi.")] = ""
    gpu: Annotated[int | None, typer.Option("--gpu", min=0, metavar="G", help="GPUs of a pod.")] = (
        None
    )
    gang: Annotated[
        int | None,
        typer.Option("--gang", min=1, metavar="N", help="N such pods, all or none."),
    ] = None
    rack: Annotated[bool, typer.Option("--rack", help="The gang in one rack.")] = False


class CapacityFlags(NamedTuple):
    """Count how many more pods or groups of a shape fit, without preemption."""

    words: flags.TargetArgument = None
    namespace: flags.TargetNamespaceFlag = ""
    shape: ShapeFlags = ShapeFlags()
    snapshot: flags.SnapshotFlag = None
    filename: ShapeFlag = None
    limit: LimitFlag = None
    want: WantFlag = None
    config: flags.ConfigFlag = ""
    nodes: flags.NodeFlags = flags.NodeFlags()
    now: flags.NowFlag = ""
    kubernetes: flags.KubernetesFlag = ""
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    output: flags.OutputFlag = flags.Output.TABLE


capacity = Command(CapacityFlags, "scheduler.cli.verbs.plan.capacity.capacity")


class MovesForm(StrEnum):
    """How a plan of moves is printed; html shows the cluster before and after.

    moveplan is the MovePlan object by which the daemon plans and executes the same goal.
    """

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    HTML = "html"
    MOVEPLAN = "moveplan"


class MovesFlags(NamedTuple):
    """Plan the fewest relocations of running pods that reach a goal. Nothing is evicted."""

    waiting: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A pending pod or group that must fit.")
    ] = ""
    namespace: flags.TargetNamespaceFlag = ""
    free: Annotated[
        int, typer.Option("--free", metavar="N", min=0, help="N nodes become free.")
    ] = 0
    level: Annotated[
        str,
        typer.Option(
            "--level", metavar="LABEL", help="With --free: whole domains, such as rack, of a label."
        ),
    ] = ""
    selector: Annotated[
        str,
        typer.Option(
            "--selector", "-l", metavar="K=V", help="With --free: only nodes with these labels."
        ),
    ] = ""
    capacity: Annotated[
        int,
        typer.Option("--capacity", metavar="N", min=0, help="N copies of the -f shape fit."),
    ] = 0
    load_below: Annotated[
        int,
        typer.Option(
            "--load-below",
            metavar="PERCENT",
            min=0,
            max=100,
            help="No node's measured use exceeds it.",
        ),
    ] = 0
    resource: Annotated[
        str, typer.Option("--resource", help="With --load-below: cpu or memory.")
    ] = "cpu"
    repair: Annotated[
        bool, typer.Option("--repair", help="Pods leave nodes that reject them now.")
    ] = False
    most: Annotated[
        int,
        typer.Option("--most", metavar="N", min=1, max=5000, help="The maximum number of moves."),
    ] = 16
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="RULE",
            help=(
                "local-data, job-retries, single-replica, any-priority or device-claims; "
                "again for more."
            ),
        ),
    ] = None
    from_namespaces: Annotated[
        list[str] | None,
        typer.Option("--from-namespace", metavar="NS", help="Only its pods move; again for more."),
    ] = None
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=600.0, help="The time limit of the search.")
    ] = 10.0
    snapshot: flags.SnapshotFlag = None
    filename: ShapeFlag = None
    config: flags.ConfigFlag = ""
    now: flags.NowFlag = ""
    kubernetes: flags.KubernetesFlag = ""
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    output: Annotated[
        MovesForm,
        typer.Option("--output", "-o", help="How to print the result.", show_choices=True),
    ] = MovesForm.TABLE


moves = Command(MovesFlags, "scheduler.cli.verbs.plan.moves.moves")


AnonymizeFlag = Annotated[
    bool, typer.Option("--anonymize", help="Hide names, labels and images, consistently.")
]
SourceFlag = Annotated[
    list[str] | None,
    typer.Option("--snapshot", metavar="F", help="Read files instead of a cluster."),
]


class SnapshotFlags(NamedTuple):
    """Write a live cluster as one List that simulate, explain and kubectl apply read."""

    anonymize: AnonymizeFlag = False
    source: SourceFlag = None
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    output: flags.OutputFlag = flags.Output.JSON


snapshot = Command(SnapshotFlags, "scheduler.cli.verbs.observe.snapshot.snapshot")


NumaFlag = Annotated[bool, typer.Option("--numa", help="NUMA zones instead, node by node.")]
LevelsFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--level", metavar="LABEL", help="A node label, from the top; else the usual ones."
    ),
]
TreeFlag = Annotated[
    str,
    typer.Option(
        "--tree",
        metavar="NAME",
        help="A topology ConfigMap's tree, a Topology of Kueue, or `hypernodes`.",
    ),
]
NodesFlag = Annotated[bool, typer.Option("--nodes", help="Down to the nodes.")]
ProfilesFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-name", metavar="NAME", help="A profile; other pods count as foreign."
    ),
]


class TopologyFlags(NamedTuple):
    """Show the tree of the cluster with requests, pods and groups, or its NUMA zones."""

    config: flags.ConfigFlag = ""
    numa: NumaFlag = False
    watch: WatchFlag = False
    levels: LevelsFlag = None
    name: TreeFlag = ""
    nodes: NodesFlag = False
    scheduler_name: ProfilesFlag = None
    snapshot: flags.SnapshotFlag = None
    now: flags.NowFlag = ""
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    output: flags.OutputFlag = flags.Output.TABLE


topology = Command(TopologyFlags, "scheduler.cli.verbs.observe.topology.topology")


class GroupsFlags(NamedTuple):
    """List the groups with members, placement, proof or conflict."""

    words: flags.TargetArgument = None
    namespace: flags.TargetNamespaceFlag = ""
    all_namespaces: flags.AllNamespacesFlag = False
    failed: Annotated[
        bool, typer.Option("--failed", help="Groups that wait, do not fit or are incomplete.")
    ] = False
    filename: flags.PodsFlag = None
    config: flags.ConfigFlag = ""
    watch: WatchFlag = False
    snapshot: flags.SnapshotFlag = None
    now: flags.NowFlag = ""
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    output: flags.OutputFlag = flags.Output.TABLE


groups = Command(GroupsFlags, "scheduler.cli.verbs.observe.groups.groups")


class QueueFlags(NamedTuple):
    """List the pods and groups that wait, in the order of the queue, and why."""

    namespace: flags.TargetNamespaceFlag = ""
    all_namespaces: flags.AllNamespacesFlag = False
    filename: flags.PodsFlag = None
    config: flags.ConfigFlag = ""
    watch: WatchFlag = False
    snapshot: flags.SnapshotFlag = None
    now: flags.NowFlag = ""
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    output: flags.OutputFlag = flags.Output.TABLE


queue = Command(QueueFlags, "scheduler.cli.verbs.observe.queue.queue")


class StatusFlags(NamedTuple):
    """Show the leader, its configuration, kinds, rights and problems; exit 1 if there are any."""

    cluster: flags.ClusterFlags = flags.ClusterFlags()
    output: flags.OutputFlag = flags.Output.TABLE


status = Command(StatusFlags, "scheduler.cli.verbs.observe.status.status")


NamespaceFlag = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", help="Shown if you may not list all namespaces; else the context's."
    ),
]
PortFlag = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="On 127.0.0.1; 0 for any free one.")
]


class UiFlags(NamedTuple):
    """Serve the page of a cluster, a snapshot or a decision log to this machine's browser."""

    snapshot: flags.SnapshotFlag = None
    decision_log: flags.DecisionLogFlag = ""
    config: flags.ConfigFlag = ""
    now: flags.NowFlag = ""
    namespace: NamespaceFlag = ""
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    port: PortFlag = 0


ui = Command(UiFlags, "scheduler.cli.verbs.start.ui.ui")


class ReplayFlags(NamedTuple):
    """Run a decision log again; exit 0 if the effects are the same, 1 if they differ."""

    file: Annotated[str, typer.Argument(metavar="F", help="A log of trellis run --decision-log.")]
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False


replay = Command(ReplayFlags, "scheduler.cli.verbs.plan.replay.replay")


class TraceFlags(NamedTuple):
    """Write arrivals and ends as a trace for simulate --trace: of the cluster, which is watched
    until Ctrl-C, or of a decision log.
    """

    decision_log: flags.DecisionLogFlag = ""
    length: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to watch: 30m, 8h.")
    ] = ""
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    config: flags.ConfigFlag = ""
    nodes: Annotated[
        str, typer.Option("--nodes", metavar="F", help="Also write the nodes, for --snapshot.")
    ] = ""


trace = Command(TraceFlags, "scheduler.cli.verbs.observe.trace.trace")

FilesFlag = Annotated[
    list[str] | None,
    typer.Option("-f", "--filename", metavar="F", help="A file or folder to rewrite; - is stdin."),
]


class ConvertFlags(NamedTuple):
    """Rewrite older AppGroups, NetworkTopologies and scheduler policies into today's form."""

    filename: FilesFlag = None
    output: Annotated[flags.Output, typer.Option("-o", "--output", help="yaml or json.")] = (
        flags.Output.YAML
    )


convert = Command(ConvertFlags, "scheduler.cli.verbs.files.convert.convert")

FileFlag = Annotated[
    str, typer.Option("--filename", "-f", metavar="F", help="Where to write it: a .tar.gz.")
]
SecondsFlag = Annotated[
    int, typer.Option("--seconds", min=0, max=300, help="Duration of the profile; 0 for none.")
]
HashNamesFlag = Annotated[
    bool, typer.Option("--hash-names", help="Names of objects as hashes, anew in each bundle.")
]


class BundleFlags(NamedTuple):
    """Collect data for debugging the running daemon: one archive, without secrets."""

    file: FileFlag = "trellis-support.tar.gz"
    seconds: SecondsFlag = 5
    hash_names: HashNamesFlag = False
    cluster: flags.ClusterFlags = flags.ClusterFlags()
    where: flags.DaemonFlags = flags.DaemonFlags()


support_bundle = Command(BundleFlags, "scheduler.cli.verbs.observe.bundle.support_bundle")


File = Annotated[str, typer.Argument(metavar="F", help="The configuration file; - is stdin.")]
MaybeFile = Annotated[
    str | None,
    typer.Argument(metavar="[F]", help="The configuration file; - is stdin, nothing the defaults."),
]


class CheckFlags(NamedTuple):
    """Read a configuration strictly; report all mistakes, each with line and column."""

    file: File


class PrintFlags(NamedTuple):
    """Print the effective configuration: every plugin list as it is called, every argument."""

    file: MaybeFile = None
    output: flags.OutputFlag = flags.Output.YAML


class DefaultsFlags(NamedTuple):
    """Print the configuration that runs without a file."""

    profile: PresetFlag = Preset.DEFAULT
    output: flags.OutputFlag = flags.Output.YAML


config = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
config.command("check")(Command(CheckFlags, "scheduler.cli.verbs.files.config.check").made())
config.command("print")(Command(PrintFlags, "scheduler.cli.verbs.files.config.print_").made())
config.command("defaults")(
    Command(DefaultsFlags, "scheduler.cli.verbs.files.config.defaults").made()
)


class PluginsFlags(NamedTuple):
    """List the plugins with their extension points and arguments."""

    names: Annotated[list[str] | None, typer.Argument(help="Only these plugins.")] = None
    output: flags.OutputFlag = flags.Output.TABLE


plugins = Command(PluginsFlags, "scheduler.cli.verbs.files.plugins.plugins")
