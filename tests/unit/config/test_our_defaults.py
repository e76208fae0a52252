"""Every profile has Trellis's own default plugins, and schedules groups or gates their pods."""

from scheduler.config import default_config, load, to_yaml
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
OURS = ("ClusterTopologyPlacementGroup", "NodeResourceTopologyMatch", "NetworkOverhead")


def ours_of(profile, point=""):
    """Return where a profile has our default plugins, or at one point."""
    found = {
        p: [e.name for e in entries if e.name in OURS] for p, entries in profile.plugins.items()
    }
    return found[point] if point else {p: names for p, names in found.items() if names}


def loaded(text):
    """Load the profiles of a file with all plugins."""
    return load(HEAD + text, file="f", registry=Registry(IN_TREE))


def test_every_profile_has_the_default_plugins():
    """A file changes only the named parts: another profile, weight or argument keeps the default
    plugins.
    """
    usual = default_config(Registry(IN_TREE)).profiles[0]
    texts = (
        "- schedulerName: x\n",
        "- schedulerName: x\n- schedulerName: y\n",
        (
            "- {schedulerName: x, plugins: {score: {enabled: [{name: NodeResourcesFit, weight: "
            "7}]}}}\n"
        ),
        "- {schedulerName: x, pluginConfig: [{name: NodeResourcesFit, args: {}}]}\n",
        "- {schedulerName: x, plugins: {score: {disabled: [{name: ImageLocality}]}}}\n",
    )
    for text in texts:
        for profile in loaded(text).profiles:
            assert ours_of(usual) == ours_of(profile)
            assert {name: usual.args[name] for name in OURS} == {
                name: profile.args[name] for name in OURS
            }


def test_our_defaults_follow_the_rules_of_lists():
    """Trellis' default plugins can be disabled at one point or everywhere, also all at once, and
    replaced by an entry of the file.
    """
    name = "NetworkOverhead"
    one = loaded("- {plugins: {filter: {disabled: [{name: NetworkOverhead}]}}}").profiles[0]
    none = loaded("- {plugins: {multiPoint: {disabled: [{name: NetworkOverhead}]}}}").profiles[0]
    kept = "[{name: PrioritySort}, {name: DefaultBinder}]"
    every = f"multiPoint: {{disabled: [{{name: '*'}}], enabled: {kept}}}"
    listed = loaded(f"- {{plugins: {{{every}}}}}").profiles[0]
    heavy = loaded(
        "- {plugins: {multiPoint: {enabled: [{name: NetworkOverhead, weight: 9}]}}}"
    ).profiles[0]

    assert name not in ours_of(one, "filter")
    assert name in ours_of(one, "score")
    assert not any(name in names for names in ours_of(none).values())
    assert {"preEnqueue": ["ClusterTopologyPlacementGroup"]} == ours_of(listed)
    assert [9] == [e.weight for e in heavy.plugins["score"] if e.name == name]


def test_default_arguments_hold_field_by_field_unless_the_file_enables_the_plugin():
    """A file that names one argument keeps the others.

    A file that lists the plugin gets the plugin's own.
    """
    named = loaded("- {pluginConfig: [{name: NetworkOverhead, args: {weightsName: W}}]}").profiles[
        0
    ]
    listed = loaded("- {plugins: {multiPoint: {enabled: [{name: NetworkOverhead}]}}}").profiles[0]

    assert ("W", "Count") == (
        named.args["NetworkOverhead"].weights_name,
        named.args["NetworkOverhead"].dependents,
    )
    assert listed.args["NetworkOverhead"].dependents == "Ignore"


def test_groups_are_gated_where_a_file_disables_their_plugin_by_name_alone():
    """The plugin keeps its gate, and a notice states it; "*" keeps groups, and a notice states
    that.
    """
    group = "[{name: ClusterTopologyPlacementGroup}]"
    for text, is_scheduled in (
        (f"multiPoint: {{disabled: {group}}}", False),
        (f"preEnqueue: {{disabled: {group}}}", False),
        ("preEnqueue: {disabled: [{name: '*'}]}", True),
        (f"preEnqueue: {{disabled: {group}, enabled: {group}}}", True),
    ):
        found = loaded(f"- {{plugins: {{{text}}}}}")
        (profile,) = found.profiles
        assert "ClusterTopologyPlacementGroup" in ours_of(profile, "preEnqueue")
        assert is_scheduled is profile.args["ClusterTopologyPlacementGroup"].schedule_groups
        assert ("enabled" in text) is not any("ClusterTopology" in str(n) for n in found.notices)
        again = load(to_yaml(found), file="again", registry=Registry(IN_TREE))
        assert found.profiles == again.profiles
