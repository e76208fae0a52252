"""Plugin classes: their arguments, their points, the registry, a profile of them."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import msgspec
import pytest

from scheduler.base.errors import ConfigError
from scheduler.engine.handle import EngineHandle
from scheduler.framework import registry as registry_module
from scheduler.framework.args import Args, NoArgs
from scheduler.framework.plugin import Plugin
from scheduler.framework.profile import ListedPlugin, ProfileSpec, build_profile
from scheduler.framework.registry import Registry
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from tests.property.making import make_node
from tests.unit.framework.runnerrig import made


class RackArgs(Args):
    """Arguments of `Rack`."""

    max_age_days: int = 365

    def validate(self) -> Iterator[tuple[str, str]]:
        """Refuse negative ages."""
        if self.max_age_days < 0:
            yield "maxAgeDays", "must not be negative"


class Rack(Plugin[RackArgs]):
    """A plugin with arguments."""

    def filter(self, *_: Any) -> None:
        """Reject nothing."""

    def score(self, *_: Any) -> Any:
        """Return no score; not called here."""


class Shelf(Rack):
    """A plugin that inherits everything."""


class Ages:
    """A tracker that counts changes."""

    kinds: tuple[str, ...] = ("Rack",)

    def __init__(self) -> None:
        self.seen = -1

    def rebuild(self, cluster: Cluster) -> None:
        """Read the present objects."""
        self.seen = len(cluster.table)

    def apply(self, change: Change) -> None:
        """Count the changes."""
        self.seen += 1

    def columns(self) -> dict[str, Any]:
        """Return the count."""
        return {"seen": self.seen}


class Aged(Ages):
    """A tracker with an argument."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least


class Other(Ages):
    """Another tracker."""


class TestPlugin:
    """A subclass of Plugin: its name, its points, and its arguments by the type parameter."""

    def test_name_points_and_arguments(self):
        """The class's name is the plugin's; points are those it overrides."""
        assert ("Rack", RackArgs) == (Rack.name, Rack.args_type)
        assert ("filter", "score") == Rack.points()
        assert Rack.serves("filter")
        assert not Rack.serves("permit")
        assert ("Shelf", RackArgs) == (Shelf.name, Shelf.args_type)
        assert NoArgs is made("Plain").args_type

    def test_arguments_are_strict_and_camel_case(self):
        """Unknown fields are refused; rules across fields yield their path."""
        assert 3 == msgspec.convert({"maxAgeDays": 3}, RackArgs).max_age_days
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.convert({"max_age_days": 3}, RackArgs)
        assert [("maxAgeDays", "must not be negative")] == list(
            RackArgs(max_age_days=-1).validate()
        )
        assert [] == list(NoArgs().validate())


class TestRegistry:
    """Classes by name."""

    def test_names_are_unique_and_exact(self):
        """The lookup is that of kube-scheduler."""
        found = Registry([Rack])

        assert found.get("Rack") is Rack
        assert found.get("rack") is None
        assert "Rack" in found
        assert ("Rack",) == found.names()
        assert [Rack] == list(found)
        with pytest.raises(ConfigError, match="Rack already exists"):
            found.add(Rack)

    def test_installed_packages_offer_plugins(self, monkeypatch: pytest.MonkeyPatch):
        """Plugins of installed packages are found by entry points, in the order of their names.
        Anything else is rejected by name.
        """
        here = "tests.unit.framework.test_plugins"
        offers = [
            EntryPoint("b", f"{here}:Rack", "trellis.plugins"),
            EntryPoint("a", f"{here}:Shelf", "trellis.plugins"),
        ]
        monkeypatch.setattr(registry_module, "entry_points", lambda group: offers)
        found = Registry()
        found.load_entry_points()
        assert ("Shelf", "Rack") == found.names()

        offers.append(EntryPoint("c", f"{here}:RackArgs", "trellis.plugins"))
        with pytest.raises(
            ConfigError, match=r"entry point c = .*RackArgs .*is not a Plugin class"
        ):
            Registry().load_entry_points()

    def test_a_broken_package_is_named(self, monkeypatch: pytest.MonkeyPatch):
        """The error names it whatever its import raises."""
        offers = [EntryPoint("a", "nowhere.at.all:Plugin", "trellis.plugins")]
        monkeypatch.setattr(registry_module, "entry_points", lambda group: offers)

        with pytest.raises(
            ConfigError, match=r"entry point a = .* cannot be loaded: ModuleNotFound"
        ):
            Registry().load_entry_points()


class TestProfile:
    """Plugins bound to their points."""

    def handle(self) -> EngineHandle:
        """Return a handle over an empty cluster."""
        return EngineHandle(Cluster(), {})

    def test_one_instance_serves_all_points(self):
        """A plugin is built once, with its arguments; each point has its own order and weight."""
        spec = ProfileSpec(
            "mine",
            {
                "filter": (ListedPlugin("Shelf"), ListedPlugin("Rack")),
                "score": (ListedPlugin("Rack", 5),),
            },
            {"Rack": RackArgs(max_age_days=1)},
        )
        profile = build_profile(spec, Registry([Rack, Shelf]), self.handle())

        assert ["Shelf", "Rack"] == [bound.name for bound in profile.filter]
        assert [("Rack", 5)] == [(bound.name, bound.weight) for bound in profile.score]
        assert profile.filter[1].plugin is profile.score[0].plugin
        assert 1 == profile.plugins["Rack"].args.max_age_days
        assert 365 == profile.plugins["Shelf"].args.max_age_days
        assert () == profile.permit

    def test_an_unknown_plugin_is_named(self):
        """A profile cannot be built without it."""
        spec = ProfileSpec("mine", {"filter": (ListedPlugin("Ghost"),)}, {})
        with pytest.raises(ConfigError, match='plugin "Ghost" does not exist'):
            build_profile(spec, Registry(), self.handle())


class TestHandle:
    """The data for plugins beyond nodes and pod."""

    def test_a_tracker_is_made_once_and_starts_from_what_is_there(self):
        """All plugins that request the class share one tracker, which starts from the existing
        objects.
        """
        cluster = Cluster()
        cluster.put_node(make_node("n"))
        handle = EngineHandle(cluster, {"Gate": True})
        first = handle.tracker(Ages)

        assert 1 == first.seen
        assert first is handle.tracker(Ages)
        assert [first] == list(handle.trackers.values())
        assert {"Gate": True} == handle.feature_gates
        assert cluster.pods is handle.pods

    def test_equal_names_in_two_modules_are_two_trackers(self):
        """A third-party plugin gets its own, whatever the name of a built-in one."""
        handle = EngineHandle(Cluster(), {})
        theirs: type[Ages] = type("Ages", (Ages,), {"__module__": "somewhere.ages"})

        assert type(handle.tracker(Ages)) is Ages
        assert type(handle.tracker(theirs)) is theirs
        assert ["tests.unit.framework.test_plugins.Ages()", "somewhere.ages.Ages()"] == [
            str(key) for key in handle.trackers
        ]

    def test_arguments_tell_trackers_apart(self):
        """One is made for each; equal ones share it."""
        handle = EngineHandle(Cluster(), {})
        first = handle.tracker(Aged, 3)

        assert (3, 5) == (first.least, handle.tracker(Aged, 5).least)
        assert first is handle.tracker(Aged, 3)

    def test_a_name_is_shared(self):
        """Packages that agree on a name have one tracker; another class of that name is
        rejected.
        """
        handle = EngineHandle(Cluster(), {})
        shared = handle.tracker(Aged, 3, name="ages")

        assert shared is handle.tracker(Ages, name="ages")
        assert shared is not handle.tracker(Aged, 3)
        with pytest.raises(ConfigError, match=r'named "ages" is a .*Aged, not a .*Other'):
            handle.tracker(Other, name="ages")

    def test_no_pod_waits_before_the_engine_is_complete(self):
        """A plugin may call it during its construction."""
        handle = EngineHandle(Cluster(), {})
        handle.allow("uid", "x")
        handle.reject("uid", "x", "y")

        assert [] == list(handle.waiting_pods())
        assert not handle.is_preempting("uid")
        assert {} == handle.objects("Service")
