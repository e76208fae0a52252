"""Answer a page's questions about a snapshot.

Called by `trellis ui` in a thread and, for the daemon's page, in a separate process. Reads only the
given snapshot and writes nothing; the creator of the snapshot decides which objects a user may see.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from scheduler.base.errors import TrellisError
from scheduler.explain.explain import explain
from scheduler.explain.grouprows import shown_groups
from scheduler.explain.questions import Question, ShapeCapacity, manifest
from scheduler.simulate.capacity import capacity
from scheduler.simulate.diff import diff
from scheduler.simulate.outcome import after as outcome
from scheduler.simulate.outcome import figures
from scheduler.simulate.records import Simulation
from scheduler.simulate.setups import Setups
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.changes import NodeChanges, changed
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.views import merged


class QuestionResponder:
    """Answer questions under the configurations of `setups`.

    Caches the plan of the last snapshot.
    """

    def __init__(self, setups: Setups) -> None:
        self._setups = setups
        self._planned: tuple[Snapshot, Simulation] | None = None

    def answer(self, question: Question, snapshot: Snapshot, options: AnswerOptions) -> object:
        """Return a record for JSON; TrellisError states the fault of the question."""
        if question.what == "plan":
            plan = self._plan(snapshot, options)
            return replace(plan, groups=shown_groups(plan.groups))
        if question.what == "explain":
            return explain(snapshot, self._setups.default, question.pod, options)
        if question.what == "capacity":
            return self._capacity(question.shapes, snapshot, options)
        return self._change(question, snapshot, options)

    def _change(
        self, question: Question, snapshot: Snapshot, options: AnswerOptions
    ) -> dict[str, object]:
        """Compare the plans without and with the changes; `figures` has those of both."""
        nodes = NodeChanges(question.added, question.removed, question.racks, question.drained)
        other = changed(snapshot, nodes) if nodes != NodeChanges() else snapshot
        notices = other.notices[len(snapshot.notices) :]
        if question.manifests.strip():
            other = merged(other, manifest(question.manifests, "the manifest"))
        before = self._plan(snapshot, options)
        after = simulate(other, self._setup_of(question.config), options)
        sides = ((snapshot, before), (other, after))
        return {
            "diff": diff(before, after),
            "after": after,
            "figures": [figures(outcome(one, plan), plan) for one, plan in sides],
            "notices": notices,
        }

    def _capacity(
        self, shapes: Mapping[str, str], snapshot: Snapshot, options: AnswerOptions
    ) -> ShapeCapacity:
        """Count shape by shape; a shape that cannot be counted does not affect the others."""
        found = ShapeCapacity({}, {})
        for name, text in shapes.items():
            try:
                # Pending pods are excluded, and might have the name of a shape.
                alone = merged(replace(snapshot, unbound=()), manifest(text, name))
                counted = capacity(alone, self._setups.default, options=options)
                found.counts[name] = counted.fits
            except TrellisError as error:
                found.problems[name] = str(error)
        return found

    def _setup_of(self, config: str) -> Setup:
        if not config.strip():
            return self._setups.default
        return self._setups.of(config, file="the configuration")

    def _plan(self, snapshot: Snapshot, options: AnswerOptions) -> Simulation:
        if self._planned is None or self._planned[0] is not snapshot:
            with_waking = replace(options, waking=True)
            self._planned = (snapshot, simulate(snapshot, self._setups.default, with_waking))
        return self._planned[1]
