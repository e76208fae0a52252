"""Generated requirements about other pods: affinity, anti-affinity, spreading."""

from tests.differential.kinds import Manifest
from tests.differential.making.words import (
    HOSTNAME,
    LABELS,
    NAMESPACES,
    REGION,
    ZONE,
    Dice,
    expression,
    selector,
)

KEYS = {HOSTNAME: 4.0, ZONE: 4.0, REGION: 1.0, "rack": 1.0}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMESPACE_LABELS = {"team": ("one", "two"), "env": ("prod", "dev")}


def affinity_between_pods(dice: Dice) -> Manifest:
    """Return podAffinity and podAntiAffinity as an affinity has them."""
    found: Manifest = {}
    for kind, share in (("podAffinity", 0.5), ("podAntiAffinity", 0.5)):
        if not dice.chance(share):
            continue
        one: Manifest = {}
        if dice.chance(0.55):
            one[REQUIRED] = [_term(dice) for _ in range(dice.weighted({1: 4, 2: 1}))]
        if dice.chance(0.6):
            one[PREFERRED] = [
                {"weight": dice.choice((1, 5, 20, 100)), "podAffinityTerm": _term(dice)}
                for _ in range(dice.weighted({1: 3, 2: 1}))
            ]
        if one:
            found[kind] = one
    return found


def spread_constraints(dice: Dice) -> list[Manifest]:
    """Return one or two spread constraints."""
    found = {}
    for _ in range(dice.weighted({1: 4, 2: 2})):
        one = _constraint(dice)
        found[(one["topologyKey"], one["whenUnsatisfiable"])] = one
    return list(found.values())


def _term(dice: Dice) -> Manifest:
    found: Manifest = {"topologyKey": dice.weighted(KEYS)}
    if dice.chance(0.95):
        found["labelSelector"] = selector(dice)
    if dice.chance(0.2):
        found["namespaces"] = dice.some(NAMESPACES, 2, 1)
    if dice.chance(0.25):
        found["namespaceSelector"] = _namespace_selector(dice)
    if "labelSelector" in found:
        _add_keys(dice, found, ("matchLabelKeys", "mismatchLabelKeys"))
    return found


def _add_keys(dice: Dice, found: Manifest, fields: tuple[str, ...]) -> None:
    """Add label keys that the selector does not have, as the API requires."""
    chosen = found["labelSelector"]
    taken = set(chosen.get("matchLabels", ()))
    taken |= {one["key"] for one in chosen.get("matchExpressions", ())}
    free = [key for key in LABELS if key not in taken]
    for field in fields:
        if free and dice.chance(0.15):
            found[field] = [free.pop()]


def _namespace_selector(dice: Dice) -> Manifest:
    if dice.chance(0.25):
        return {}
    return {"matchExpressions": [expression(dice, NAMESPACE_LABELS)]}


def _constraint(dice: Dice) -> Manifest:
    hard = dice.chance(0.5)
    found: Manifest = {
        "topologyKey": dice.weighted(KEYS),
        "maxSkew": dice.weighted({1: 5, 2: 3, 3: 1}),
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
    }
    if dice.chance(0.95):
        found["labelSelector"] = selector(dice)
        _add_keys(dice, found, ("matchLabelKeys",))
    if hard and dice.chance(0.3):
        found["minDomains"] = dice.choice((1, 2, 3, 4))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.chance(0.25):
            found[field] = dice.choice(("Honor", "Ignore"))
    return found
