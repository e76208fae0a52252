"""The annotations of PodGroups of both API groups, for settings without a field of their own.

These are the rules for levels of the tree, and the name of the tree.
"""

from collections.abc import Mapping

from scheduler.base.errors import ObjectError
from scheduler.groups.description.rules import LevelConstraint, constraints
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.sources.inputs import kind_of, parsed
from scheduler.objects.meta import AnnotatedMeta

CONSTRAINTS_ANNOTATION = "sakkara.group/constraints"
TOPOLOGY_ANNOTATION = "sakkara.group/topology"
# Combined with a source's own topology constraint, these annotations are an error.
OF_TREES = (CONSTRAINTS_ANNOTATION, TOPOLOGY_ANNOTATION)


def minimum_group(meta: AnnotatedMeta, size: int, source: str) -> GroupSpec:
    """Return a group whose object states the minimum number of members that start together.

    Further members are placed with them if they fit, and may be evicted alone. The rules for levels
    and the tree are those of the annotations; `source` names the object for users.
    """
    return GroupSpec(
        meta.namespace,
        meta.name,
        size,
        None,
        rules(meta.annotations),
        source,
        is_minimum=True,
        topology=topology(meta.annotations),
        may_shrink=True,
        has_classes=True,
    )


def rules(annotations: Mapping[str, str]) -> dict[str, LevelConstraint]:
    """Read the rules by level from the annotation, none without it; ObjectError states the
    error.
    """
    if CONSTRAINTS_ANNOTATION not in annotations:
        return {}
    where = f"metadata.annotations[{CONSTRAINTS_ANNOTATION}]"
    try:
        found = parsed(annotations, CONSTRAINTS_ANNOTATION)
    except ObjectError as error:
        raise ObjectError(error.message.replace("data.", "metadata.annotations.")) from error
    if not isinstance(found, dict):
        raise ObjectError(f"{where}: a JSON object is needed, not {kind_of(found)}")
    return constraints(found, where)


def topology(annotations: Mapping[str, str]) -> str:
    """Return the name of the tree that the group is placed in, '' if it names none."""
    return annotations.get(TOPOLOGY_ANNOTATION, "").strip()
