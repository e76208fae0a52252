"""`EngineSettings`: the engine's part of the configuration, read in one place for all callers.

The daemon, `simulate`, `explain` and `replay` start from `engine_settings`, so that no field can
apply to one of them and not to another; they override fields by name.
"""

from collections.abc import Mapping

import msgspec

from scheduler.base.release import DEFAULT, Release
from scheduler.config.featuregates.gates import gates_in_effect
from scheduler.config.load import Loaded
from scheduler.config.names import GROUPS
from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.extender.extenders import ConfiguredExtender, extenders_of
from scheduler.engine.queue.backoff import PodBackoff
from scheduler.framework.args import NoArgs
from scheduler.objects.groups.derivedgroups import DeriveKinds, kinds_of


class EngineSettings(msgspec.Struct, frozen=True):
    """The engine's settings; `seed` makes random choices repeatable.

    `derive` has, per profile, the kinds from whose objects groups are derived. `feature_gates` has
    the value of every switch; `release` decides where Kubernetes versions differ. With
    `solves_inline` the engine solves instances of milliseconds within the turn; without it every
    instance becomes an effect.
    """

    backoff: PodBackoff = PodBackoff()
    ties: Ties = Ties.UID
    percentage_of_nodes_to_score: int = 0
    seed: int = 0
    feature_gates: Mapping[str, bool] = {}
    release: Release | None = None
    extenders: tuple[ConfiguredExtender, ...] = ()
    solves_inline: bool = False
    derive: Mapping[str, DeriveKinds] | None = None


def engine_settings(loaded: Loaded, *, seed: int = 0) -> EngineSettings:
    """Return the engine settings of a configuration; it has no setting for ties."""
    scheduler, release = loaded.scheduler, loaded.release or DEFAULT
    return EngineSettings(
        backoff=PodBackoff(scheduler.pod_initial_backoff_s, scheduler.pod_max_backoff_s),
        percentage_of_nodes_to_score=scheduler.percentage_of_nodes_to_score or 0,
        seed=seed,
        feature_gates=gates_in_effect(loaded.trellis.feature_gates, release),
        release=release,
        extenders=extenders_of(scheduler.extenders),
        solves_inline=True,
        derive=derived_kinds(loaded),
    )


def derived_kinds(loaded: Loaded) -> dict[str, DeriveKinds]:
    """Return the kinds from whose objects groups are derived, by profile."""
    found = {}
    for one in loaded.profiles:
        args = one.args.get(GROUPS, NoArgs())
        always, on_request = args.derived_kinds()
        if always or on_request:
            found[one.scheduler_name] = DeriveKinds(kinds_of(always), kinds_of(on_request))
    return found
