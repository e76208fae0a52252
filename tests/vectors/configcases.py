"""config.json: a configuration as input, plugin lists or the text of its first error as output.

Two properties decide where the result differs, as long as not all of kube-scheduler's plugins exist
here. A plugin that the registry lacks and that is enabled by default is left out of the lists; one
that a file enables by name is refused by name. Arguments for it are accepted unread, as those of
any unknown plugin are. Trellis's own default plugins, which every profile has, are left out of the
comparison.
"""

import json

import pytest

from scheduler.config import InvalidConfigError, ReadingStep, load
from scheduler.config.names import KUBE_SCHEDULER, OUR_DEFAULTS
from scheduler.framework.plugin import POINTS
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE

EXPECTATIONS = {"plugins", "decodeError", "validationErrors", "startError"}


def run_config(vector):
    """Load the configuration and compare the result."""
    case, expect = vector.case, vector.case["expect"]
    if case["op"] != "config" or not set(expect) <= EXPECTATIONS:
        pytest.fail(f"unknown operation {case['op']} or expectation")
    registry = Registry(IN_TREE)
    config = case["config"]
    text = config if isinstance(config, str) else json.dumps(config, indent=2)
    expect = _without_missing_args(expect, config, registry)
    enabled = _enabled(config) & KUBE_SCHEDULER - set(registry.names())
    if enabled and not {"decodeError", "validationErrors"} & set(expect):
        with pytest.raises(InvalidConfigError) as refused:
            load(text, file="case.yaml", registry=registry)

        assert all(f'"{name}"' in str(refused.value) for name in enabled)
    elif "plugins" in expect or not expect:
        loaded = load(text, file="case.yaml", registry=registry)

        assert _restricted(expect.get("plugins"), registry) in (_lists(loaded), None)
    else:
        _compare_errors(text, expect, registry)


def _compare_errors(text, expect, registry):
    with pytest.raises(InvalidConfigError) as refused:
        load(text, file="case.yaml", registry=registry)
    problems = refused.value.problems
    texts = [problem.text for problem in problems]

    if "decodeError" in expect:
        # The exact text is informative only; the stage and the place are compared.
        assert ReadingStep.DECODE == problems[0].stage
        assert problems[0].line > 0
    elif "validationErrors" in expect:
        assert sorted(expect["validationErrors"]) == sorted(texts)
        assert {ReadingStep.VALIDATION} == {problem.stage for problem in problems}
    else:
        assert expect["startError"] == texts[0]
        assert ReadingStep.START == problems[0].stage


def _lists(loaded):
    """Return the plugins of the first profile as the file writes them, without those of
    OUR_DEFAULTS.
    """
    ours = {name for name, _, _ in OUR_DEFAULTS}
    found = {
        point: [
            {"name": listed.name} | ({"weight": listed.weight} if point == "score" else {})
            for listed in entries
            if listed.name not in ours
        ]
        for point, entries in loaded.profiles[0].plugins.items()
    }
    return {point: entries for point, entries in found.items() if entries}


def _restricted(plugins, registry):
    """Return the expected lists without extension points and plugins that Trellis does not have."""
    if plugins is None:
        return None
    known = {
        point: [entry for entry in entries if entry["name"] in registry]
        for point, entries in plugins.items()
        if point in POINTS.values()
    }
    return {point: entries for point, entries in known.items() if entries}


def _profiles(config):
    return config.get("profiles") or () if isinstance(config, dict) else ()


def _enabled(config):
    """Return the names that the configuration enables explicitly."""
    return {
        entry.get("name")
        for profile in _profiles(config)
        for plugin_set in (profile.get("plugins") or {}).values()
        for entry in (plugin_set or {}).get("enabled") or ()
    }


def _without_missing_args(expect, config, registry):
    """Drop errors about arguments of plugins that do not exist here; the rest must match."""
    missing = {
        f"profiles[{number}].pluginConfig[{index}]": entry.get("name")
        for number, profile in enumerate(_profiles(config))
        for index, entry in enumerate(profile.get("pluginConfig") or ())
        if entry.get("name") in KUBE_SCHEDULER and entry.get("name") not in registry
    }

    def is_ours(text):
        about = any(f"{path}.args" in text or f".{path}:" in text for path in missing)
        return not about and not any(f'plugin "{name}": ' in text for name in missing.values())

    left = {}
    for kind, value in expect.items():
        texts = value if isinstance(value, list) else [value]
        kept = [text for text in texts if isinstance(text, dict) or is_ours(text)]
        if kept:
            left[kind] = kept if isinstance(value, list) else value
    return left
