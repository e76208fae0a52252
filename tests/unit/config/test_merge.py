"""Plugin lists merge and spread over the points as kube-scheduler's do."""

import msgspec

from scheduler.config.merge import default_plugins, expand, merge
from scheduler.config.model import Plugins
from tests.unit.config.plugins import registry


def lists(custom):
    """Return the lists of every point after merging `custom` on the defaults."""
    known = registry()
    merged = merge(default_plugins(known), msgspec.convert(custom, Plugins))
    found, problems = expand(merged, known)
    return {point: names(entries) for point, entries in found.items()}, [p.text for p in problems]


def names(entries):
    """Write a list as `name` or `name=weight`."""
    return " ".join(f"{e.name}={e.weight}" if e.weight else e.name for e in entries)


def set_of(enabled="", disabled=""):
    """Return a plugin set from `name` and `name=weight` texts."""
    words = [word.partition("=") for word in enabled.split()]
    return {
        "enabled": [{"name": n, "weight": int(w)} if w else {"name": n} for n, _, w in words],
        "disabled": [{"name": name} for name in disabled.split()],
    }


def test_the_default_set_has_only_what_exists():
    """Without lists of its own a profile runs the default plugins in their order."""
    found, problems = lists({})

    assert [] == problems
    assert "NodeAffinity NodeResourcesFit" == found["filter"]
    assert "NodeAffinity=2 NodeResourcesFit=1 ImageLocality=1" == found["score"]
    assert "PrioritySort" == found["queueSort"]
    assert "DefaultBinder" == found["bind"]


def test_an_entry_of_the_same_name_replaces_a_default_in_place():
    """The entry keeps the order and sets its weight; other entries are appended."""
    found, _ = lists({"multiPoint": set_of("Extra=4 NodeAffinity=9")})

    assert "NodeAffinity=9 NodeResourcesFit=1 ImageLocality=1 Extra=4" == found["score"]


def test_disabled_defaults_go_and_enabled_beats_disabled():
    """A default that is disabled and enabled again is last."""
    found, _ = lists({"multiPoint": set_of("NodeAffinity", "NodeAffinity ImageLocality")})

    assert "NodeResourcesFit NodeAffinity" == found["filter"]
    assert "NodeResourcesFit=1 NodeAffinity=1" == found["score"]


def test_a_points_own_entries_that_overrule_come_first():
    """The multiPoint entries follow, then the point's other entries."""
    found, _ = lists({"score": set_of("Extra=7 ImageLocality=5")})

    assert "ImageLocality=5 NodeAffinity=2 NodeResourcesFit=1 Extra=7" == found["score"]


def test_disabling_all_at_a_point_keeps_other_points():
    """ "*" removes the multiPoint entries there, and only there."""
    found, _ = lists({"filter": set_of("Extra", "*")})

    assert "Extra" == found["filter"]
    assert "NodeAffinity=2 NodeResourcesFit=1 ImageLocality=1" == found["score"]


def test_disabled_and_enabled_at_one_point_stands_last():
    """A multiPoint plugin that a point disables and enables comes after the others."""
    found, _ = lists({"filter": set_of("NodeAffinity", "NodeAffinity")})

    assert "NodeResourcesFit NodeAffinity" == found["filter"]


def test_weight_zero_means_one_and_a_points_weight_wins():
    """The order of precedence is: the point's entry, multiPoint's, one."""
    found, _ = lists(
        {"multiPoint": set_of("Extra=8"), "score": set_of("NodeAffinity=0 NodeResourcesFit=6")}
    )

    assert "NodeAffinity=1 NodeResourcesFit=6 ImageLocality=1 Extra=8" == found["score"]


def test_mistakes_have_kube_schedulers_texts():
    """Unknown plugins, wrong points and repetitions are all reported, in the order in which the
    points are read.
    """
    _, problems = lists(
        {
            "filter": set_of("Nope ImageLocality Extra Extra"),
            "queueSort": set_of("NodeAffinity"),
            "multiPoint": set_of("Nada Extra Extra"),
        }
    )

    assert [
        'FilterPlugin "Nope" does not exist',
        'plugin "ImageLocality" does not extend FilterPlugin plugin',
        'plugin "Extra" already registered as "FilterPlugin"',
        'plugin "NodeAffinity" does not extend QueueSortPlugin plugin',
        'PreFilterPlugin "Nada" does not exist',
        'plugin "Extra" already registered as "ScorePlugin"',
    ] == problems


def test_a_plugin_of_kube_scheduler_that_does_not_exist_here_is_refused_by_name():
    """A file that enables such a plugin must not be accepted without effect."""
    _, problems = lists({"score": set_of("PodTopologySpread=5")})

    assert [
        (
            'plugin "PodTopologySpread" is one of kube-scheduler\'s that does not exist here yet; '
            "take it out of the enabled list to go on without it"
        )
    ] == problems


def test_points_behind_closed_gates_accept_who_serves_them_there():
    """Extension points behind closed gates have no effect, as in kube-scheduler with its default
    gates.
    """
    found, problems = lists({"placementScore": set_of("NodeResourcesFit=3")})

    assert [] == problems
    assert "placementScore" not in found
    assert lists({"placementScore": set_of("NodeAffinity")})[1]
