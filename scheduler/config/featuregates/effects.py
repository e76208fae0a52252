"""The effects of newer releases' settings in a loaded configuration, one line each.

For `config check`. Rejected settings are errors of the file and settings without effect are
notices: both come from `load`.
"""

from collections.abc import Iterator

from scheduler.config.featuregates.gates import GATES, Effect, gate_effect
from scheduler.config.load import Loaded


def effects(loaded: Loaded) -> Iterator[str]:
    """Yield `setting: done: text` for each feature gate and each argument behind one."""
    gates = loaded.trellis.feature_gates
    for name, value in gates.items():
        effect, text = gate_effect(name, value)
        if effect is Effect.DONE:
            yield f"featureGates.{name}: {effect}: {text}"
    for number, profile in enumerate(loaded.profiles):
        for plugin, args in profile.args.items():
            for field, gate in args.gated().items():
                since = GATES[gate].on_since
                text = f"on Kubernetes {since} and later" if gates.get(gate) is None else "on"
                place = f"profiles[{number}].pluginConfig[{plugin}].args.{field}"
                yield f"{place}: {Effect.DONE}: {text} (feature gate {gate})"
