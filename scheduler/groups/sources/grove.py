"""PodGangs of scheduler.grove.io, which Grove's operator creates; a label of the pods names them.

Each of its podgroups is a class of members, by the label of their PodClique: `minReplicas` pods of
each start together, further pods are placed as capacity allows. A required pack constraint of the
gang keeps all members in one value of a node label; a preferred one needs a Topology of Kueue with
that level. The status is the operator's and is not written.
"""

from typing import Final

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.groups.description import classes
from scheduler.groups.description.spec import LARGEST_GROUP, GroupSpec
from scheduler.groups.problem.classes import MOST_CLASSES
from scheduler.groups.sources import annotated, kai
from scheduler.groups.sources.claim import by_label
from scheduler.groups.sources.inputs import check_between
from scheduler.groups.sources.labelled import placed_by
from scheduler.groups.sources.served import ServedGroups
from scheduler.objects.groups.gangs import GrovePack, GrovePodGroup, GroveTopology, PodGang
from scheduler.objects.kinds import POD_GANG

KIND: Final = POD_GANG.kind
PREFIX: Final = "podgang:"
LABEL: Final = "grove.io/podgang"
CLIQUE_LABEL: Final = "grove.io/podclique"
_NO_PACK: Final = GrovePack()


class PodGangs(ServedGroups):
    """The source of PodGangs."""

    of = POD_GANG
    prefix = PREFIX

    def read(self, obj: PodGang) -> GroupSpec:
        """Return the group that the PodGang describes; ObjectError names an invalid or unsupported
        field.
        """
        meta, spec = obj.metadata, obj.spec
        if spec.topology_constraint_group_configs:
            text = "spec.topologyConstraintGroupConfigs is refused: a constraint is for the gang"
            raise ObjectError(text)
        made = _classes(spec.podgroups)
        size = sum(one.min for one in made)
        check_between(size, 1, LARGEST_GROUP, "the sum of minReplicas of spec.podgroups")
        constraint = _pack(spec.topology_constraint)
        group = replace(
            annotated.minimum_group(meta, size, f"PodGang {meta.namespace}/{meta.name}"),
            classes=classes.ClassesSpec(made, label=CLIQUE_LABEL),
            priority_class=spec.priority_class_name,
        )
        where = "spec.topologyConstraint"
        return placed_by(group, constraint.required, constraint.preferred, where, meta.annotations)


def _classes(found: tuple[GrovePodGroup, ...]) -> tuple[classes.ClassSpec, ...]:
    """Return the podgroups as classes of members; ObjectError names a wrong field."""
    if not 1 <= len(found) <= MOST_CLASSES:
        raise ObjectError(f"spec.podgroups: {len(found)} are not between 1 and {MOST_CLASSES}")
    made = {}
    for at, one in enumerate(found):
        where = f"spec.podgroups[{at}]"
        if _pack(one.topology_constraint) != _NO_PACK:
            text = "is refused: a constraint is for the gang"
            raise ObjectError(f"{where}.topologyConstraint {text}")
        if not one.name or one.name in made:
            raise ObjectError(f"{where}.name is missing or not unique")
        check_between(one.min_replicas, 0, LARGEST_GROUP, f"{where}.minReplicas")
        made[one.name] = classes.ClassSpec(one.name, one.min_replicas)
    return tuple(made[name] for name in sorted(made))


def _pack(found: GroveTopology | None) -> GrovePack:
    return _NO_PACK if found is None else found.pack_constraint or _NO_PACK


SOURCE = PodGangs()
# Grove names a gang in KAI's annotation as well.
CLAIM = by_label(
    LABEL,
    f"{SOURCE.served_as} of {SOURCE.api_version}",
    (KIND,),
    prefix=PREFIX,
    same_as=kai.PREFIX,
)
