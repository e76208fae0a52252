"""The table of agents."""

import typer

from scheduler.cli.agent import bandwidth, load, netperf

agent = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@agent.callback()
def _about() -> None:
    """Run an agent on a node."""


agent.command()(load.load)
agent.command()(bandwidth.bandwidth)
agent.add_typer(netperf.app, name="netperf")
