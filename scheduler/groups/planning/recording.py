"""`PlanRecorder`: what the solver proved of a group, and why it does not fit, kept in the group's
record.

No decision depends on it; the texts of refusals are made here.
"""

from scheduler.framework import groups
from scheduler.framework.status import Status, unschedulable
from scheduler.groups.planning import messages, planning
from scheduler.groups.planning.task import GroupTask
from scheduler.groups.problem.answer import Advice, Conflict
from scheduler.groups.solver.questions import Solution
from scheduler.groups.status.records import RecordStore
from scheduler.groups.topology import tree as topology
from scheduler.state.podindex import PodIndex


class PlanRecorder:
    """Writes `records`, by group; `pods` are those on nodes."""

    def __init__(self, records: RecordStore, pods: PodIndex) -> None:
        self._records = records
        self._pods = pods

    def no_node(self, task: GroupTask, site: planning.Site, fits: groups.Fits) -> Status:
        """Return why no node takes any member."""
        text = topology.nowhere(task.tree, task.context.nodes, fits.rows)
        if not text:
            size = Advice((Conflict("", "size", str(site.instance.least)),))
            found = messages.refusal(task, site, fits, size, self._pods)
            self.refusal(task.key, found)
            text = found.text
        return unschedulable(f"the group {task.name} does not fit: {text}")

    def refused(
        self,
        task: GroupTask,
        site: planning.Site,
        fits: groups.Fits,
        solution: Solution,
        *,
        tried: bool,
    ) -> Status:
        """Return why the solver's answer places no member; `tried` if it rests on learnt bounds."""
        if solution.placed.outcome == "unknown" or solution.advice is None:
            return task.left_open("waits: the solver found nothing within its time")
        found = messages.refusal(task, site, fits, solution.advice, self._pods)
        self.refusal(task.key, found)
        text = f"does not fit: {found.text}"
        if tried:
            # Bounds that were learnt from a misfit may be tighter than the rules: no proof.
            return task.left_open(
                messages.sentences(text, "rules between members were counted as well")
            )
        return unschedulable(f"the group {task.name} {text}")

    def solved(self, key: str, solution: Solution) -> None:
        """Keep what a solve proves for reports about the group."""
        record, found = self._records.of(key), solution.roles or solution.placed
        record.solver_s = found.seconds
        before = record.proof
        record.proof = before.after(
            found.outcome, found.stages, optimal=found.optimal, is_partial=record.is_partial
        )
        if record.proof is not before:
            record.is_whole = bool(record.proof.bound) and not record.is_partial

    def refusal(self, key: str, found: messages.GroupRefusal) -> None:
        """Keep why a group does not fit."""
        record = self._records.of(key)
        record.conflict, record.would_fit = found.conflict, found.would_fit
        record.is_final = found.is_final
