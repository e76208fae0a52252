"""`trellis version`."""

import platform

from scheduler.about import KUBERNETES_VERSIONS, OLDEST_KUBERNETES, VERSION, version_text
from scheduler.cli.flags import Output, OutputFlag
from scheduler.cli.output.printing import show_document


def version(output: OutputFlag = Output.TABLE) -> None:
    """Print the version and the Kubernetes versions it is tested with."""
    if output in (Output.TABLE, Output.WIDE):
        print(version_text())
    elif output is Output.NAME:
        print(VERSION)
    else:
        facts = {
            "version": VERSION,
            "kubernetesVersions": list(KUBERNETES_VERSIONS),
            "oldestKubernetes": OLDEST_KUBERNETES,
            "python": platform.python_version(),
        }
        show_document(facts, output)
