"""The invariants of workload cases, and the parts of a recorded outcome that have to be met.

Invariants hold for any decision in a tie; outcomes are compared where the record is the only right
one.
"""

import collections

from tests.vectors.workloadcluster import matches, requests
from tests.vectors.workloadphase import Phase


def units(phase, keys):
    """{(group or None, pod)} folded: ordinary pods alone, members of one group together ->
    [(priority, group, keys)].
    """
    by = collections.defaultdict(list)
    for k in keys:
        g = phase.group_of(phase.pods[k])
        by[g if g in phase.groups else k].append(k)
    return [
        (
            phase.priority(u) if u in phase.groups else phase.pods[u]["spec"].get("priority", 0),
            u if u in phase.groups else None,
            sorted(ks),
        )
        for u, ks in sorted(by.items())
    ]


def cost(phase, victims):
    """(violated budgets, pods by priority from the top down) as a comparable tuple, most important
    first.
    """
    violated = 0
    for b in phase.budgets:
        hit = sum(
            matches(
                phase.pods[k]["metadata"].get("labels", {}), b["spec"]["selector"]["matchLabels"]
            )
            for k in victims
        )
        violated += max(0, hit - b["status"]["disruptionsAllowed"])
    by: collections.Counter[int] = collections.Counter()
    for k in victims:
        p = phase.pods[k]
        g = phase.group_of(p)
        by[
            phase.priority(g)
            if g in phase.groups and phase.whole(g)
            else p["spec"].get("priority", 0)
        ] += 1
    return [violated] + [x for pr in sorted(by, reverse=True) for x in (pr, by[pr])]


def invariants(case, index, obs, before):
    """{invariant: text} of the violations in one phase.

    `before` is the observation of the phase before (None for the first).
    """
    p = Phase(case, index, obs)
    out = {}
    old = (
        {k: v["node"] for k, v in before["pods"].items() if v["node"]}
        if before
        else {k: o["spec"]["nodeName"] for k, o in p.pods.items() if o["spec"].get("nodeName")}
    )
    fresh = {k for k in p.at if k not in old}
    victims = {k for k in p.missing if before is None or k in before["pods"] or ("Pod", k) in p.new}
    cluster = p.cluster()
    for name, there in cluster.pods.items():
        if any(x < 0 for x in cluster.left[name]):
            out["fit"] = f"{name} is over-committed: {cluster.left[name]}"
        for k in fresh & set(there):
            pod = there.pop(k)
            cluster.left[name] = [
                a + b for a, b in zip(cluster.left[name], requests(pod), strict=True)
            ]
            if not cluster.fits(pod, name):
                out["fit"] = f"{k} may not be on {name}"
            there[k] = pod
            cluster.left[name] = [
                a - b for a, b in zip(cluster.left[name], requests(pod), strict=True)
            ]
    for k in fresh:
        g = p.group_of(p.pods[k])
        if g and g not in p.groups:
            out["grouped"] = f"{k} was placed, but its group {g} does not exist"
    for g in p.groups:
        members, least = p.members(g), p.least(g)
        bound = {k for k in members if k in p.at}
        if bound & fresh and len(bound) < least:
            out["gang"] = f"{g}: {len(bound)} of at least {least} placed: {sorted(bound)}"
        if p.topology(g) and bound & fresh:
            values = {p.labels(p.at[k]).get(p.topology(g)) for k in bound}
            if len(values) > 1 or None in values:
                out["domain"] = f"{g}: in {sorted(map(str, values))} of {p.topology(g)}"
    busy = {k for k, v in obs["pods"].items() if v.get("nominated") and not v["node"]}
    # no feasible group or pod may be left waiting
    for g in p.groups:
        pending = [k for k in p.members(g) if k not in p.at]
        if (
            pending
            and not busy & set(pending)
            and ("PodGroup", g) not in p.deleted
            and p.can_grow(g, p.cluster())
        ):
            out["idle"] = (
                f"{g}: {p.capacity_for(g, p.cluster())} (placed, could be added) of at least "
                f"{p.least(g)}, but it waits"
            )
    for k, pod in p.pods.items():
        if k in p.at or k in p.missing or p.group_of(pod) or k in busy:
            continue
        if any(p.cluster().fits(pod, n["metadata"]["name"]) for n in p.nodes):
            out["idle"] = f"{k} fits somewhere, but it waits"
    # pods of the start are served by priority
    if index == 0 and not victims:
        placed = units(p, fresh)
        for priority, g, keys in units(
            p, [k for k in p.pods if k not in p.at and k not in p.missing]
        ):
            low = {k for pr, h, ks in placed if pr < priority and h != g for k in ks}
            if not low or (g is None and p.group_of(p.pods[keys[0]])):
                continue
            w = p.cluster(low)
            if p.can_grow(g, w) if g else any(w.fits(p.pods[keys[0]], n) for n in w.nodes):
                out["inversion"] = (
                    f"{g or keys[0]} (priority {priority}) waits, would fit without "
                    f"{sorted(low)} of lower priority"
                )
    # evictions
    if victims:
        gained = list(units(p, fresh))
        top = max((u[0] for u in gained), default=None)
        by_group = any(u[1] for u in gained)
        if top is None and not busy:
            out["pointless"] = f"{sorted(victims)} evicted, no pod placed"
        for priority, g, keys in units(p, victims):
            who = g or keys[0]
            if g and not p.whole(g):
                own = min(p.pods[k]["spec"].get("priority", 0) for k in keys)
            else:
                own = priority
            if top is not None and own >= top:
                out["victim"] = f"{who} (priority {own}) evicted for priority {top}"
            if g and p.whole(g) and by_group and any(k in p.at and k in old for k in p.members(g)):
                out["whole"] = f"only {keys} of {g} evicted, which is disrupted as a whole"
        if top is not None:
            w = p.cluster()
            for k in victims:  # one victim (or a whole group of them) that could have stayed
                g = p.group_of(p.pods[k])
                together = (
                    [v for v in victims if p.group_of(p.pods[v]) == g]
                    if g and g in p.groups and p.whole(g)
                    else [k]
                )
                put, there = [], (before or {"pods": {}})["pods"]
                for v in together:
                    home = p.pods[v]["spec"].get("nodeName") or (there.get(v) or {}).get("node")
                    if not home or not w.fits(p.pods[v], home):
                        break
                    w.add(p.pods[v], home)
                    put.append(v)
                else:
                    out["needless"] = f"{together} could have stayed"
                for v in put:
                    w.remove(p.pods[v])
    return out


def outcome(case, index, obs):
    """{group or ordinary pod: how many are placed} and the evicted ones, for comparison between
    runs.
    """
    p = Phase(case, index, obs)
    counts = {g: sum(k in p.at for k in p.members(g)) for g in sorted(p.groups)}
    return (
        counts,
        {
            k: k in p.at
            for k, o in sorted(p.pods.items())
            if not p.group_of(o) and k not in p.missing
        },
        sorted(p.missing),
    )


def compare(case, index, obs, want, either, conditions=True, messages=False, floor=None):
    """{outcome: text} of the differences from the record.

    `either`: groups and pods whose record is not the only right outcome.
    """
    out, floor = {}, floor or {}
    p, q = Phase(case, index, obs), Phase(case, index, want)
    counts, singles, gone = outcome(case, index, obs)
    wanted, wanted_singles, wanted_gone = outcome(case, index, want)
    hit = {
        p.group_of(p.pods[k]) for k in set(gone) | set(wanted_gone) if k in p.pods
    }  # victims are judged by cost: equal victims are equal
    for g, n in wanted.items():
        if (
            g not in either
            and g not in hit
            and (counts[g] < floor[g] if g in floor else counts[g] != n)
        ):
            out["count"] = (
                f"{g}: want {n} placed, got {counts[g]} (at least {p.least(g)}, "
                f"{len(p.members(g))} members)"
            )
    for k, placed in wanted_singles.items():
        if k not in either and singles.get(k, placed) != placed and k not in gone:
            out["scheduled"] = f"{k}: want {'placed' if placed else 'waiting'}, got the other"
    if "victims" not in either:
        mine, theirs = cost(p, gone), cost(q, wanted_gone)
        if mine > theirs:
            out["cost"] = f"evicted {gone} {mine}, the record evicts {wanted_gone} {theirs}"
    if not conditions:
        return out
    for g, have in want["groups"].items():
        if g in either or (g in floor and counts[g] != wanted[g]):
            continue
        mine = obs["groups"].get(g, {})
        for kind, (status, reason, message) in have.items():
            got = mine.get(kind) or (
                mine.get("PodGroupInitiallyScheduled") if kind == "PodGroupScheduled" else None
            )
            if not got or got[:1] != [status]:
                out["condition"] = f"{g}: want {kind} {status}/{reason}, got {got and got[:2]}"
            elif status == "False" and got[1] != reason:
                out["reason"] = f"{g}: want {kind} {reason}, got {got[1]}"
            elif messages and got[2] != message:
                out["message"] = f"{g}: want {message!r}, got {got[2]!r}"
        if not have and any(v[0] == "True" for v in mine.values()):
            out["condition"] = f"{g}: want no condition, got {mine}"
    for k, w in want["pods"].items():
        g = p.group_of(p.pods[k]) if k in p.pods else None
        got = obs["pods"].get(k)
        if (
            k not in p.pods
            or got is None
            or k in either
            or g in either
            or w["node"]
            or got["node"]
            or not w["condition"]
        ):
            continue
        if not got["condition"] or got["condition"][0] != w["condition"][0]:
            out["condition"] = (
                f"{k}: want PodScheduled {w['condition'][:2]}, "
                f"got {got['condition'] and got['condition'][:2]}"
            )
        elif got["condition"][1] != w["condition"][1]:
            out["reason"] = f"{k}: want {w['condition'][1]}, got {got['condition'][1]}"
        elif messages and got["condition"][2] != w["condition"][2]:
            out["message"] = f"{k}: want {w['condition'][2]!r}, got {got['condition'][2]!r}"
    return out


def agree(case, index, a, b):
    """Return whether two observations show the same cluster up to a permutation of like members."""

    def picture(obs):
        p = Phase(case, index, obs)
        return sorted(
            (n, p.group_of(p.pods[k]) or k, requests(p.pods[k])) for k, n in p.at.items()
        ), sorted(p.missing)

    return picture(a) == picture(b)
