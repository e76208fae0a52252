"""Plugins that have nothing to do: by their arguments, or for as long as they sleep."""

from scheduler.framework.answers import States
from scheduler.framework.runners import Runners
from tests.unit.framework.stage import Stage, made


def noting(name, **members):
    """Return a plugin that notes its calls, and sleeps while `is_asleep` is set."""

    def point(method):
        return lambda self, *_: self.calls.append(method)

    methods = ("pre_filter", "filter", "reserve", "unreserve", "post_bind")
    return made(
        name, calls=[], is_asleep=False, **{method: point(method) for method in methods} | members
    )


def attempted(stage, runner):
    """Let a pod go all the way, and have it taken back as well."""
    states = States()
    runner.pre_filter(stage.cycle, stage.nodes, states)
    runner.filter(stage.cycle, stage.nodes, states, stage.nodes.exists)
    runner.reserve(stage.cycle, "n0", states)
    runner.unreserve(stage.cycle, "n0", states)
    runner.post_bind(stage.cycle, "n0")


def test_who_sleeps_is_left_out_until_it_wakes():
    """Nothing is called for an attempt that began meanwhile; the others are asked as ever."""
    sleeper = noting("A", sleeps=lambda self: self.is_asleep)
    other = noting("B")
    stage = Stage(sleeper, other)
    runners = Runners(stage.profile)
    stage.plugin(sleeper).is_asleep = True
    before = runners.awake()
    stage.plugin(sleeper).is_asleep = False
    attempted(stage, before)
    everything = ["pre_filter", "filter", "reserve", "unreserve", "post_bind"]
    assert ([], everything) == (sleeper.calls, other.calls)

    attempted(stage, runners.awake())
    assert everything == sleeper.calls
    stage.plugin(sleeper).is_asleep = True
    assert before is runners.awake()


def test_a_profile_without_sleepers_has_one_runner():
    """Who never sleeps is not asked whether it does."""
    runners = Runners(Stage(noting("A")).profile)

    assert runners.awake() is runners.awake()


def test_who_is_idle_at_a_point_is_not_bound_there():
    """A plugin whose arguments make reserve and post-bind empty is not called there."""
    cls = noting("A", idle_at=("reserve", "post_bind"))
    stage = Stage(cls)
    attempted(stage, stage.runner)

    assert ["pre_filter", "filter"] == cls.calls
