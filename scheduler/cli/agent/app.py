"""The table of agents."""

import typer

from scheduler.cli.agent import bandwidth, load, netperf

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def agent() -> None:
    """Run an agent on a node."""


app.command()(load.load)
app.command()(bandwidth.bandwidth)
app.add_typer(netperf.app, name="netperf")
