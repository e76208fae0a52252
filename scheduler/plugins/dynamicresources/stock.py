"""What some nodes have of the devices that claims ask for: how many are free, and who has the others.

For the text of a refusal. A device counts once, however many of the nodes can use it, and if any request
of the claims could take it were it free; what constraints and counters say of several devices is left out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from scheduler.framework.together import Stock
from scheduler.plugins.dynamicresources.candidates import Candidates, SearchError
from scheduler.plugins.dynamicresources.catalog import DeviceCatalog
from scheduler.plugins.dynamicresources.pools import DeviceId
from scheduler.plugins.dynamicresources.requests import Ask, Plan


def stock_of(
    catalog: DeviceCatalog, plan: Plan, names: Sequence[str], nodes: Iterable[str]
) -> Stock:
    """Return what these nodes have for claims of a plan; `names` are the claims'."""
    asks = [ask for claim in plan.claims for asks in claim.requests for ask in asks]
    used: dict[DeviceId, bool] = {}
    # What the selectors say of a device follows from its content, whichever node it is on.
    selected: dict[int, bool] = {}
    for node in nodes:
        found = Candidates(names, catalog.pools(node), catalog.in_use)
        for place, slot in enumerate(found.slots):
            if not slot.is_here or slot.id in used:
                continue
            if slot.content not in selected:
                selected[slot.content] = any(_selects(found, ask, place) for ask in asks)
            if selected[slot.content]:
                used[slot.id] = catalog.in_use.has(slot.id)
    taken = {device for device, is_used in used.items() if is_used}
    return Stock("devices", len(used) - len(taken), len(used), _users(catalog, taken))


def _selects(found: Candidates, ask: Ask, place: int) -> bool:
    device = found.slots[place].device
    try:
        return found.is_selectable(ask, place) and ask.tolerates(device.taints)
    except SearchError:
        return False


def _users(catalog: DeviceCatalog, taken: set[DeviceId]) -> Counter[str]:
    users: Counter[str] = Counter()
    for user, results in catalog.allocations():
        number = len({(one.driver, one.pool, one.device) for one in results} & taken)
        if number:
            users[user] += number
    return users
