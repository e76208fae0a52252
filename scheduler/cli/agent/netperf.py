"""`trellis agent netperf`: measures latency between nodes; `throughput` measures one link on
request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from scheduler.cli import flags
from scheduler.cli.agent.running import cluster, run_until_stopped

if TYPE_CHECKING:
    from operators.agents.netperf import NetperfSettings, Peers

PORT, METRICS_PORT = 10261, 10262

NodeName = Annotated[
    str, typer.Option("--node-name", envvar="NODE_NAME", help="The node this runs on.")
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file", envvar="TRELLIS_NETPERF_KEY_FILE", help="The key that all agents share."
    ),
]
Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", envvar="POD_NAMESPACE", help="The namespace of the agents."),
]
Service = Annotated[
    str, typer.Option("--service", help="The Service whose endpoints are the agents.")
]
PeersFile = Annotated[
    Path | None, typer.Option("--peers", help="A file that lists the agents, instead.")
]
BindAddress = Annotated[str, typer.Option("--bind-address", help="Else all addresses.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535)]
MetricsPort = Annotated[int, typer.Option("--metrics-port", min=0, max=65535)]
ProbesPerMinute = Annotated[
    float, typer.Option("--probes-per-minute", min=0.1, max=600, help="The maximum of this agent.")
]
LeastSeconds = Annotated[
    float, typer.Option("--least-seconds", min=0.1, help="Between two probes of one pair.")
]
RoundTrips = Annotated[
    int, typer.Option("--round-trips", min=1, max=900, help="Round trips of one probe.")
]
ProbeSeconds = Annotated[
    float, typer.Option("--probe-seconds", min=0.01, max=30, help="The longest probe.")
]
Pairs = Annotated[
    int, typer.Option("--pairs", min=1, max=10, help="Pairs of nodes between two zones.")
]
RefreshSeconds = Annotated[
    float, typer.Option("--refresh-seconds", min=0.1, help="Between two lists of the agents.")
]
Push = Annotated[str, typer.Option("--push", help="The URL of a Pushgateway.")]
PushSeconds = Annotated[float, typer.Option("--push-seconds", min=1.0)]
LinksFile = Annotated[
    Path | None, typer.Option("--simulate-links", help="A file of simulated delays, for tests.")
]

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def netperf(
    context_: typer.Context,
    node_name: NodeName = "",
    key_file: KeyFile = None,
    kubeconfig: flags.KubeconfigFlag = "",
    context: flags.ContextFlag = "",
    namespace: Namespace = "",
    service: Service = "trellis-netperf-agent",
    peers: PeersFile = None,
    bind_address: BindAddress = "",
    port: Port = PORT,
    metrics_port: MetricsPort = METRICS_PORT,
    probes_per_minute: ProbesPerMinute = 20.0,
    least_seconds: LeastSeconds = 10.0,
    round_trips: RoundTrips = 100,
    probe_seconds: ProbeSeconds = 2.0,
    pairs: Pairs = 2,
    refresh_seconds: RefreshSeconds = 300.0,
    push: Push = "",
    push_seconds: PushSeconds = 30.0,
    links: LinksFile = None,
    log_level: flags.LogLevelFlag = "info",
    log_format: flags.LogFormatFlag = "auto",
) -> int:
    """Measure latency to the other agents, and answer them."""
    if context_.invoked_subcommand is not None:
        return 0
    if not node_name:
        raise typer.BadParameter("say which node this is", param_hint="--node-name")
    from operators.agents.netperf import NetperfSettings, ProbePace

    settings = NetperfSettings(
        node=node_name,
        host=bind_address,
        port=port,
        metrics_port=metrics_port,
        pace=ProbePace(probes_per_minute, least_seconds),
        round_trips=round_trips,
        probe_s=probe_seconds,
        pairs_per_zone_pair=pairs,
        refresh_s=refresh_seconds,
        push=push,
        push_s=push_seconds,
    )
    others = Others(kubeconfig, context, namespace, service, peers)
    return run_until_stopped(_agent(settings, key_file, others, links), log_level, log_format)


class Others(NamedTuple):
    """Where the agent finds its peers: in a file, or in a Service's endpoints."""

    kubeconfig: str
    context: str
    namespace: str
    service: str
    file: Path | None

    def listed(self) -> Peers | None:
        """Return the peers named in the file, if there is one."""
        from operators.agents.netperf import PeersOfFile

        return None if self.file is None else PeersOfFile(self.file)

    async def served(self, stack: AsyncExitStack) -> Peers:
        """Return the peers of the Service; the connection stays open until the stack is closed."""
        from operators.agents.netperf import PeersOfService

        found = await stack.enter_async_context(cluster(self.kubeconfig, self.context))
        home = self.namespace or found.namespace or "default"
        return PeersOfService(found.api, home, self.service)


def _agent(
    settings: NetperfSettings, key_file: Path | None, others: Others, links: Path | None
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return the coroutine that runs the agent; the files that it needs are read before."""
    from random import Random

    from operators.agents.netperf import Keys, NetperfAgent, SimulatedLinks
    from scheduler.base.clock import RealClock

    keys = Keys(_needed(key_file))
    listed = others.listed()
    random = Random(0)  # noqa: S311 - no secret
    simulated = SimulatedLinks(links, random) if links is not None else None

    async def start() -> None:
        async with AsyncExitStack() as stack:
            known = listed or await others.served(stack)
            await NetperfAgent(settings, keys, known, RealClock(), simulated).run()

    return start


@app.command()
def throughput(
    host: Annotated[str, typer.Argument(help="Where an agent listens: an address or a name.")],
    key_file: KeyFile = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = PORT,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=10, help="The longest time.")
    ] = 5.0,
    most: Annotated[str, typer.Option("--bytes", help="The maximum amount, up to 1Gi.")] = "100M",
    output: flags.OutputFlag = flags.Output.TABLE,
) -> int:
    """Send bytes to an agent at full speed, and print the number that arrived."""
    from operators.agents.netperf import Keys, Target, stream
    from scheduler.base.errors import ConfigError, ObjectError
    from scheduler.cli.output.printing import show_document
    from scheduler.objects.quantity import quantity

    try:
        limit = quantity(most)
    except ObjectError as error:
        raise ConfigError(error.message, where="--bytes") from error
    if not 0 < limit <= 1 << 30:
        raise ConfigError(f'"{most}" is not between 1 and 1Gi', where="--bytes")
    found = stream(Target((host, port), "", ""), Keys(_needed(key_file)), limit, seconds)
    if output in (flags.Output.JSON, flags.Output.YAML):
        document = {
            "bytes": found.bytes,
            "seconds": found.seconds,
            "bitsPerSecond": found.bits_per_s,
        }
        show_document(document, output)
    else:
        megabits = found.bits_per_s / 1e6
        print(f"{megabits:.0f} Mbit/s ({found.bytes} bytes in {found.seconds:.3f} s)")
    return 0


def _needed(key_file: Path | None) -> Path:
    if key_file is None:
        raise typer.BadParameter("where is the key that all agents share?", param_hint="--key-file")
    return key_file
