"""What the TrellisConfiguration means for the profiles, and what of it means nothing yet.

The last step of loading: profiles are built and valid. Changes no file's meaning silently: whatever is
cut is told.
"""

from collections.abc import Iterable

import msgspec

from scheduler.config.notices import Notices
from scheduler.config.trellis import SolverLimits
from scheduler.framework.args import Args
from scheduler.framework.profile import ProfileSpec


def limited(
    specs: Iterable[ProfileSpec], limits: SolverLimits, notices: Notices
) -> tuple[ProfileSpec, ...]:
    """Return the profiles with no more for a solve than the process allows."""
    return tuple(
        msgspec.structs.replace(
            spec,
            args={name: _within(name, args, limits, notices) for name, args in spec.args.items()},
        )
        for spec in specs
    )


def _within(plugin: str, args: Args, limits: SolverLimits, notices: Notices) -> Args:
    found = args.within(limits.time_limit_seconds, limits.workers)
    if found is args:
        return args
    asked, given, usual = map(msgspec.to_builtins, (args, found, type(args)()))
    for field, value in given.items():
        # A default that is cut surprises nobody.
        if asked[field] not in (value, usual[field]):
            text = f"{plugin} asks for {field}: {asked[field]:g}; solver allows {value:g}"
            notices.add(text, "solver")
    return found
