"""Write a loaded configuration: as YAML for people, as JSON for /configz.

The output is complete (every list in call order, every argument) and is itself a configuration:
loading it gives the same `Loaded` again.
"""

from typing import Any, Final

import msgspec
import yaml

from scheduler.config import model
from scheduler.config.defaults import EVERY_NODE
from scheduler.config.load import Loaded
from scheduler.framework.args import NoArgs
from scheduler.framework.profile import ListedPlugin, ProfileSpec

HIDDEN: Final = "REDACTED"
# Lists are written point by point, so that multiPoint adds nothing.
_NO_MULTI_POINT: Final = {"disabled": [{"name": "*"}]}


def documents(loaded: Loaded) -> list[dict[str, Any]]:
    """Return both documents as plain data, in the order of a file."""
    return [_scheduler(loaded), _builtins(loaded.trellis)]


def to_yaml(loaded: Loaded) -> str:
    """Return the complete configuration file of `loaded`."""
    return yaml.safe_dump_all(documents(loaded), sort_keys=False, default_flow_style=False)


def to_configz(loaded: Loaded) -> dict[str, Any]:
    """Return the answer of /configz: kube-scheduler's key and one of Trellis, no private keys."""
    scheduler, ours = documents(loaded)
    _hide_keys(scheduler)
    return {"componentconfig": scheduler, "trellisconfig": ours}


def to_log(loaded: Loaded, text: str) -> str:
    """Return the file's `text` for a decision log.

    The rendered configuration if it has private keys. A replay needs no keys: the extenders'
    answers are in the log. Without a text, the rendered configuration is returned too.
    """
    found = documents(loaded)
    has_keys = _hide_keys(found[0])
    return yaml.safe_dump_all(found, sort_keys=False) if has_keys or not text else text


def _hide_keys(scheduler: dict[str, Any]) -> bool:
    """Hide the private keys in a document; return whether there are any."""
    given = [one.get("tlsConfig", {}) for one in scheduler.get("extenders", ())]
    holders = [one for one in given if one.get("keyData")]
    for one in holders:
        one["keyData"] = HIDDEN
    return bool(holders)


def _scheduler(loaded: Loaded) -> dict[str, Any]:
    config: dict[str, Any] = _builtins(loaded.given)
    head = {"apiVersion": model.API_VERSION, "kind": model.KIND}
    profiles = [_profile(spec) for spec in loaded.profiles]
    config.pop("profiles", None)
    extenders = config.pop("extenders", None)
    return {
        **head,
        **config,
        "profiles": profiles,
        **({"extenders": extenders} if extenders else {}),
    }


def _profile(spec: ProfileSpec) -> dict[str, Any]:
    plugins: dict[str, Any] = {"multiPoint": _NO_MULTI_POINT}
    for point, entries in spec.plugins.items():
        if entries:
            plugins[point] = {"enabled": [_entry(entry, point) for entry in entries]}
    plugin_config = [
        {"name": name, "args": _builtins(args)}
        for name, args in sorted(spec.args.items())
        if not isinstance(args, NoArgs)
    ]
    return {
        "schedulerName": spec.scheduler_name,
        # Written in each profile: a profile that scores all nodes may exist beside a global share.
        "percentageOfNodesToScore": spec.percentage_of_nodes_to_score or EVERY_NODE,
        "plugins": plugins,
        "pluginConfig": plugin_config,
    }


def _entry(entry: ListedPlugin, point: str) -> dict[str, Any]:
    return {"name": entry.name} | ({"weight": entry.weight} if point == "score" else {})


def _builtins(value: Any) -> Any:
    """Return plain data without nulls: in a file null and "not set" are the same."""
    return _without_nulls(msgspec.to_builtins(value))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(inner) for inner in value]
    return value
