"""The hash by which the command line recognises the configuration of a running daemon."""

import yaml

from scheduler.config import default_config, load, to_configz
from scheduler.config.fingerprint import fingerprint
from scheduler.framework.registry import Registry
from scheduler.intree import registry

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
%s
profiles:
- schedulerName: trellis
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: %s, resources: [{name: cpu, weight: 1}]}}
"""


def of(strategy: str, more: str = "", known: Registry | None = None) -> str:
    """Return the hash of a file."""
    return fingerprint(load(FILE % (more, strategy), file="f", registry=known or registry()))


def test_what_decides_is_in_it_and_what_does_not_is_not():
    """Another score changes the fingerprint; leader election and the client's pace do not."""
    same = "leaderElection: {leaderElect: false}\nclientConnection: {qps: 7}"

    assert of("MostAllocated") == of("MostAllocated", same)
    assert of("MostAllocated") != of("LeastAllocated")
    assert of("MostAllocated") != fingerprint(default_config(registry()))


def test_what_the_daemon_serves_loads_to_the_same_hash():
    """/configz, written as a file, is the same configuration."""
    known = registry()
    for loaded in (
        default_config(known),
        load(FILE % ("", "MostAllocated"), file="f", registry=known),
    ):
        served = to_configz(loaded)
        text = yaml.safe_dump_all([served["componentconfig"], served["trellisconfig"]])

        assert fingerprint(load(text, file="f", registry=known)) == fingerprint(loaded)
