"""The entry point of this package: configuration text → `Loaded`, or InvalidConfigError.

Each step reports all its mistakes at once: read the documents, decode them, fill in the defaults,
validate, build the profiles. Opens no file; the command line passes the text.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from scheduler.base.release import Release
from scheduler.base.text import did_you_mean
from scheduler.config import defaults, model, names, trellis, validate
from scheduler.config.decode import decode
from scheduler.config.document import DocumentNode, parse
from scheduler.config.featuregates.gates import Effect, gate_effect
from scheduler.config.merge import default_plugins, merge
from scheduler.config.model import KubeSchedulerConfiguration
from scheduler.config.notices import Notice, Notices
from scheduler.config.problems import Problems, ReadingStep
from scheduler.config.profiles import ProfileBuilder, decode_args, list_notices
from scheduler.config.settings import SchedulerSettings
from scheduler.config.trellis import SolverLimits, TrellisConfiguration
from scheduler.framework.args import Args
from scheduler.framework.profile import ProfileSpec
from scheduler.framework.registry import Registry

T = TypeVar("T")

_KINDS: Final = {
    (model.API_VERSION, model.KIND): KubeSchedulerConfiguration,
    (trellis.API_VERSION, trellis.KIND): TrellisConfiguration,
}


class Loaded(msgspec.Struct, frozen=True):
    """A valid configuration; `given` is the file's first document with all defaults.

    `release` is that of the API server, None while it is unknown.
    """

    profiles: tuple[ProfileSpec, ...]
    scheduler: SchedulerSettings
    trellis: TrellisConfiguration
    notices: tuple[Notice, ...]
    given: KubeSchedulerConfiguration
    release: Release | None = None


def default_config(registry: Registry) -> Loaded:
    """Return the configuration without a file: one profile `trellis` with the default plugins."""
    config = KubeSchedulerConfiguration()
    return _Loading("", registry).load(config, None, TrellisConfiguration(), None)


def load(text: str, *, file: str, registry: Registry) -> Loaded:
    """Read a configuration file; `file` is its name in messages. Raises InvalidConfigError."""
    problems = Problems(file)
    return load_roots(parse(text, problems), problems, registry)


def load_roots(roots: Iterable[DocumentNode], problems: Problems, registry: Registry) -> Loaded:
    """Read the parsed documents of a file with its parse errors in `problems`.

    Raises InvalidConfigError.
    """
    found = _documents(roots, problems)
    kube, kube_root = _decoded(found, KubeSchedulerConfiguration, problems)
    ours, ours_root = _decoded(found, TrellisConfiguration, problems)
    problems.raise_if_any()
    return _Loading(problems.file, registry).load(kube, kube_root, ours, ours_root)


def _documents(roots: Iterable[DocumentNode], problems: Problems) -> dict[type, DocumentNode]:
    """Return the documents by kind; empty ones are skipped."""
    found: dict[type, DocumentNode] = {}
    for root in roots:
        if root.value is None:
            continue
        kind = _kind(root, problems)
        if kind is None:
            continue
        if kind in found:
            problems.add(ReadingStep.DECODE, f"a second {kind.__name__} in one file", root.at)
        found[kind] = root
    if not found and not problems.found:
        problems.add(
            ReadingStep.DECODE,
            f"the file is empty; it needs apiVersion: {model.API_VERSION}, kind: {model.KIND}",
            (1, 1),
        )
    problems.raise_if_any()
    return found


def _kind(root: DocumentNode, problems: Problems) -> type | None:
    """Return the struct for a document by its apiVersion and kind."""
    if not isinstance(root.value, dict):
        problems.add(
            ReadingStep.DECODE, "a configuration is an object with apiVersion and kind", root.at
        )
        return None
    values = {key: root.value[key].value for key in ("apiVersion", "kind") if key in root.value}
    for key, word in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not isinstance(values.get(key), str):
            text = f"Object '{word}' is missing"
            problems.add(ReadingStep.DECODE, text, root.at, hint=f": write {key}: ...")
            return None
    version, kind = values["apiVersion"], values["kind"]
    struct = _KINDS.get((version, kind))
    if struct is None:
        text = f'no kind "{kind}" is registered for version "{version}"'
        problems.add(ReadingStep.DECODE, text, root.position("kind"), hint=_kind_hint(kind))
    return struct


def _kind_hint(kind: str) -> str:
    if kind == "Policy":
        return " (scheduler policies are gone; trellis convert rewrites one)"
    for known_version, known_kind in _KINDS:
        if kind == known_kind:
            return f" (the version is {known_version} today)"
    return did_you_mean(kind, [known for _, known in _KINDS])


def _decoded(
    found: dict[type, DocumentNode], into: type[T], problems: Problems
) -> tuple[T, DocumentNode | None]:
    node = found.get(into)
    if node is None:
        return into(), None
    return decode(node, into, problems) or into(), node


class _Loading:
    """One run through the steps after decoding."""

    def __init__(self, file: str, registry: Registry) -> None:
        self.file = file
        self.registry = registry

    def load(
        self,
        kube: KubeSchedulerConfiguration,
        root: DocumentNode | None,
        ours: TrellisConfiguration,
        ours_root: DocumentNode | None,
    ) -> Loaded:
        notices = Notices(self.file, root)
        if root is not None:
            kube = names.rename(kube, root, notices)
        # Without a file there is nothing to report about reading.
        filled = defaults.fill(kube, notices if self.file else Notices("", None))
        self._missing(notices)
        problems = Problems(self.file)
        args = [
            decode_args(profile, f"profiles[{index}]", root, self.registry, problems)
            for index, profile in enumerate(filled.profiles)
        ]
        problems.raise_if_any()
        base = default_plugins(self.registry)
        merged = [merge(base, profile.plugins) for profile in filled.profiles]
        faults = validate.scheduler_faults(filled, merged, args)
        self._report(ReadingStep.VALIDATION, faults, root, problems)
        gated = validate.gated_faults(filled, args, ours.feature_gates)
        self._report(ReadingStep.VALIDATION, gated, root, problems)
        self._report(ReadingStep.VALIDATION, validate.trellis_faults(ours), ours_root, problems)
        problems.raise_if_any()
        building = ProfileBuilder(filled, self.registry)
        specs = building.build(merged, args)
        for problem in building.problems:
            at = root.position(problem.path) if root else (0, 0)
            problems.add(ReadingStep.START, problem.text, at, hint=building.hint(problem))
        self._report(ReadingStep.START, validate.start_faults(filled), root, problems)
        problems.raise_if_any()
        for index, (profile, spec) in enumerate(zip(filled.profiles, specs, strict=True)):
            list_notices(profile, f"profiles[{index}]", spec.plugins, self.registry, notices)
        own = Notices(self.file, ours_root)
        for gate, value in ours.feature_gates.items():
            effect, reason = gate_effect(gate, value)
            if effect is Effect.WITHOUT:
                own.without_effect(f"the feature gate {gate}", reason, f"featureGates.{gate}")
        specs = _limited(specs, ours.solver, own)
        found = (*notices.found, *own.found)
        return Loaded(specs, defaults.settings(filled), ours, found, filled)

    def _missing(self, notices: Notices) -> None:
        missing = [name for name, _ in names.DEFAULT_MULTI_POINT if name not in self.registry]
        if missing:
            notices.add(f"default plugins that are not there yet: {', '.join(missing)}")

    def _report(
        self,
        stage: ReadingStep,
        faults: validate.Faults,
        root: DocumentNode | None,
        problems: Problems,
    ) -> None:
        for path, text in faults:
            problems.add(stage, text, root.position(path) if root else (0, 0))


def _limited(
    specs: Iterable[ProfileSpec], limits: SolverLimits, notices: Notices
) -> tuple[ProfileSpec, ...]:
    """Return the profiles with each solve limited by the process-wide solver limits."""
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
    configured, given, usual = map(msgspec.to_builtins, (args, found, type(args)()))
    for field, value in given.items():
        # Reducing a default needs no notice.
        if configured[field] not in (value, usual[field]):
            text = f"{plugin} asks for {field}: {configured[field]:g}; solver allows {value:g}"
            notices.add(text, "solver")
    return found
