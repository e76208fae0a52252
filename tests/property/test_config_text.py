"""Any text of a configuration file yields a configuration or InvalidConfigError."""

import time

import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import InvalidConfigError, load, to_yaml
from scheduler.config.model import API_VERSION, KIND
from tests.unit.config.plugins import registry

REGISTRY = registry()
NAMES = st.sampled_from(
    ["*", "NodeAffinity", "NodeResourcesFit", "Extra", "ImageLocality", "OtherSort", "Nope", ""]
)
POINTS = st.sampled_from(["filter", "score", "multiPoint", "queueSort", "bind", "placementScore"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["5s", "-1s", "1h", "100", "a/b", "leases"])
)  # fmt: skip
FIELDS = st.sampled_from(
    [
        "parallelism", "leaderElection", "leaseDuration", "profiles", "schedulerName", "plugins",
        "filter", "enabled", "name", "weight", "pluginConfig", "args", "limit", "extenders",
        "percentageOfNodesToScore", "clientConnection", "qps", "kind", "managedResources",
    ]
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(FIELDS | st.text(), inner, max_size=5)
    ),
    max_leaves=25,
)
ENTRIES = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"weight": st.integers(-5, 300)}), max_size=4
)
SETS = st.fixed_dictionaries({}, optional={"enabled": ENTRIES, "disabled": ENTRIES})
PROFILES = st.fixed_dictionaries(
    {},
    optional={
        "schedulerName": st.sampled_from(["a", "b", "c", ""]),
        "percentageOfNodesToScore": st.integers(-1, 101),
        "plugins": st.dictionaries(POINTS, SETS, max_size=4),
        "pluginConfig": st.lists(
            st.fixed_dictionaries(
                {"name": NAMES},
                optional={
                    "args": st.fixed_dictionaries({}, optional={"limit": st.integers(-1, 9)})
                },
            ),
            max_size=3,
        ),
    },
)


def outcome(text):
    """Load a text; return the configuration, or None if it is rejected as expected."""
    try:
        return load(text, file="f", registry=REGISTRY)
    except InvalidConfigError as error:
        problems = error.problems
    assert problems
    assert all(problem.where.startswith("f:") for problem in problems if problem.line)
    return None


@given(st.text(max_size=200))
def test_any_text_is_refused_or_loaded(text):
    """For any text the reader returns a result or its own error."""
    outcome(text)


@given(st.text(alphabet="{}[]:,-&*!|>'\"%@`#?\n\t ab1~<", max_size=120))
def test_any_mixture_of_yaml_signs_is_refused_or_loaded(text):
    """Texts made of YAML's own signs reach deeper into the parser."""
    outcome(f"a: {text}")
    outcome(text)


@given(st.dictionaries(FIELDS, TREES, max_size=6))
def test_any_tree_under_the_right_kind_is_refused_or_loaded(tree):
    """Right names with wrong values: every one yields a message with a position, in limited
    time.
    """
    start = time.process_time()
    outcome(yaml.safe_dump(tree | {"apiVersion": API_VERSION, "kind": KIND}))

    assert time.process_time() - start < 2


@given(st.lists(PROFILES, max_size=3))
def test_what_loads_prints_and_loads_as_the_same(profiles):
    """The printed form of any configuration that loads is the same configuration."""
    config = {"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}
    first = outcome(yaml.safe_dump(config))
    if first is None:
        return
    second = outcome(to_yaml(first))

    assert second is not None
    assert first.profiles == second.profiles
    assert first.scheduler == second.scheduler


@given(st.lists(PROFILES, max_size=2))
def test_lists_that_load_hold_each_plugin_once(profiles):
    """At every point each plugin is listed once; there is one queue sort, at least one bind, and
    weights for scores.
    """
    config = outcome(
        yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles})
    )
    for spec in config.profiles if config else ():
        for point, entries in spec.plugins.items():
            names = [entry.name for entry in entries]

            assert len(set(names)) == len(names)
            assert all(REGISTRY.get(name) for name in names)
            assert all(bool(entry.weight) == (point == "score") for entry in entries)
        assert 1 == len(spec.plugins["queueSort"])
        assert spec.plugins["bind"]
