"""The invariants, and for each the changes to the product that break it on purpose."""

from typing import Final, NamedTuple

SOLVER: Final = "tests/property/test_solver.py"
CERTIFICATES: Final = "tests/property/test_certificates.py"
UNITS: Final = "tests/property/test_preemption_units.py"
SIMULATED: Final = "tests/property/test_simulated_victims.py"
GROUP_SOURCES: Final = "tests/property/test_group_sources.py"
LIFECYCLE: Final = "tests/faults/test_group_lifecycle.py"
LIFECYCLES: Final = "tests/faults/test_group_lifecycles.py"
TRAFFIC: Final = "tests/property/test_traffic_units.py"
APPLICATIONS: Final = "tests/property/test_whole_applications.py"
WORKLOADS: Final = "tests/property/test_workload_invariants.py"
ALONE: Final = "tests/property/test_objects_alone.py"
CLAIMED: Final = "tests/property/test_claims_alone.py"
DEFAULT: Final = "tests/property/test_default_profile.py"
WHY: Final = "tests/property/test_why.py"
CLAIMS: Final = "tests/docs/test_claims.py"
INVARIANTS: Final = "tests/simulated/test_invariants.py"
EVICTIONS: Final = "tests/simulated/test_evictions.py"
TAKEOVER: Final = "tests/simulated/test_takeover.py"
ELECTION: Final = "tests/unit/kube/test_lease_invariants.py"
PAST: Final = "tests/property/test_group_past.py"
PLANNING: Final = "tests/property/test_group_planning.py"
RIGHTS: Final = "tests/e2e/test_rights.py"
MOVES: Final = "tests/property/test_move_plans.py"
CHECKS: Final = "tests/unit/moves/test_executing.py"
RESERVED: Final = "tests/unit/engine/test_reservations.py"
OTHERS: Final = "tests/unit/moves/test_other_plans.py"

OBJECTS = "what is decided follows from objects alone"
EVICTION_EVENT = "no running pod is evicted without an event"
CERTIFICATE = "a certificate is true"
BETTER = "a better answer in hand is never thrown away"
RIGHT = "rights are those that are needed"
CLAIM = "claims in texts are run"
NAMED = "what is said of a pending pod holds, and what is suggested helps"
PRIORITY = "no pod is evicted for one of equal or lower priority"
BUDGET = "no budget is broken without need"
NEEDLESS = "what is written changes something"
WHOLE = "no group starts in part"
VAIN = "no pod is evicted in vain"
SOURCE = "a group of any source is handled equally"
WHOLE_GROUP = "a group is released as a whole or not at all"
CAPACITY = "no node is over capacity at any bind"
LEASE = "no write of a process that does not lead is carried out"
MOVED = "a moved pod has a node, and no pod moves against a rule"


class Mutation(NamedTuple):
    """A change to the product: `old`, which occurs once in `place`, becomes `new`.

    `test` must fail. `place` is a file, or the qualified name of a function or class
    (`Election._write`), which stays valid when its module is renamed. `test` are arguments of
    pytest. A `real` one needs a real API server.
    """

    name: str
    invariant: str
    place: str
    old: str
    new: str
    test: tuple[str, ...]
    real: bool = False


_GROUPS = "scheduler/groups/"
_SOLVE = "scheduler/groups/solver/solve.py"
_BOUNDS = (f"{SOLVER}::test_a_bound_is_true_for_every_solver",)
_KEPT = (SOLVER, "-k", "never_thrown_away or every_program")

MUTATIONS: Final = (
    Mutation(
        "victims go before all of their unit are marked",
        WHOLE_GROUP, "PodEvictor.evict",
        "            refusal = await self._decided(unit)\n",
        "            refusal = None\n",
        (EVICTIONS, "-k", "cannot_be_marked"),
    ),
    Mutation(
        "members of an incomplete group keep their reserved capacity",
        WHOLE_GROUP, "LeftMembers.finish",
        "            self._engine.give_up(nominated, now)\n", "",
        (LIFECYCLE, "-k", "incomplete_group_release"),
    ),
    Mutation(
        "a group that is left undecided blocks capacity for others",
        WHOLE_GROUP, "GroupTask.left_open",
        ", gives_up=not self.bound", "",
        ("tests/unit/engine/test_groups.py", "-k", "undecided_group_keeps"),
    ),
    Mutation(
        "status writes of the previous leader are taken to be in flight",
        WHOLE_GROUP, "Writing.leads",
        "self._unsure = dict.fromkeys(self._known, now + SURE_AFTER_S)", "self._unsure = {}",
        (LIFECYCLE, "-k", "who_leads_a_moment"),
    ),
    Mutation(
        "the remaining members of an evicted group stay",
        WHOLE_GROUP, "LeftMembers.finish",
        "            for placed in left:\n",
        "            for placed in ():\n",
        (EVICTIONS, "-k", "goes_later or finishes"),
    ),
    Mutation(
        "the cost of a path is taken for the opposite direction",
        CERTIFICATE, "_between_nodes",
        "tuple(map(tuple, (costs - near).tolist()))",
        "tuple(map(tuple, (costs - near).T.tolist()))",
        (APPLICATIONS, "-m", "long or not long", "-k", "[1]"),
    ),
    Mutation(
        "a path whose cost equals its limit is rejected",
        CERTIFICATE, "scheduler/groups/planning/classproblem.py",
        "rows = (np.flatnonzero(row > one.most) for row in network.prices)",
        "rows = (np.flatnonzero(row >= one.most) for row in network.prices)",
        (APPLICATIONS,),
    ),
    Mutation(
        "what units say to one another is counted from both sides",
        CERTIFICATE, "scheduler/groups/solver/traffic/trafficunits.py",
        "pods * cheapest / 2",
        "pods * cheapest",
        (TRAFFIC,),
    ),
    Mutation(
        "leaves alone tell of a group that has so many under each unit",
        CERTIFICATE, "is_bounded_by_leaves",
        "        and not any(rule.units_per_parent for rule in of_leaves)\n",
        "",
        (TRAFFIC,),
    ),
    Mutation(
        "members are let go without proof that the group was never whole",
        OBJECTS, "may_dissolve",
        "return past.never_whole(members.placed(key), waiting, needed.size, since)",
        "return True",
        (LIFECYCLE, "-k", "complete_while_no_scheduler_ran"),
    ),
    Mutation(
        "whether a group was whole is not read from its members",
        OBJECTS, "was_whole",
        "    if any(one.metadata.labels.get(MEMBER_STATUS) == BOUND for one in members):\n"
        "        return True\n",
        "",
        (LIFECYCLE, "-k", "described_larger or enlarged"),
    ),
    Mutation(
        "nominations are not read from pods",
        OBJECTS, "Intake._pod_waiting",
        "self._nominations.put(pod, pod.status.nominated_node_name)",
        'self._nominations.put(pod, "")',
        (ALONE, "-k", "reservations"),
    ),
    Mutation(
        "a part of a group starts with fewer pods than it needs",
        WHOLE, "PartModel._own",
        "cp.add(sum(pods) >= one.minimum * many)",
        "cp.add(sum(pods) >= many)",
        ("tests/property/test_parts.py",),
    ),
    Mutation(
        "a part of a group has two pods where it may have one",
        WHOLE, "PartModel._keep_apart",
        "self._cp.add(sum(here) + fixed <= many[leaves[0]])",
        "self._cp.add(sum(here) + fixed <= 2 * many[leaves[0]])",
        ("tests/property/test_parts.py",),
    ),
    Mutation(
        "a group in a group with rules of its own is taken for like others",
        WHOLE, "_Maker._sign",
        "for one in node.leaves()) or self.has_rules(node):",
        "for one in node.leaves()):",
        ("tests/unit/plugins/test_groups_children.py",),
    ),
    Mutation(
        "a group in a group goes on without those above it",
        WHOLE, "GroupMembers.root",
        "return key if key not in self._around else self.above(key)[-1]",
        "return key",
        ("tests/unit/plugins/test_groups_composite.py",),
    ),
    Mutation(
        "a group that goes whole is not looked for above",
        WHOLE, "Descriptions.unit_above",
        "if isinstance(spec, ObjectError) or spec.is_evicted_together:",
        "if isinstance(spec, ObjectError):",
        ("tests/unit/plugins/test_groups_composite.py", "-k", "evicted_whole"),
    ),
    Mutation(
        "what is set aside for a claim is forgotten when another's use of it is shown",
        OBJECTS, "DeviceCatalog._count",
        "            self._put(identity(new), self._pending[identity(new)])\n"
        "            self._forget_shown(identity(new), new)\n",
        "            self.release(identity(new))\n",
        (CLAIMED,),
    ),
    Mutation(
        "a member that another gate holds keeps its group waiting",
        OBJECTS, "Groups._read_gates",
        "self._members.drop(key, queued.uid)",
        "pass",
        (CLAIMED,),
    ),
    Mutation(
        "a change that makes an eviction useful wakes no pod",
        OBJECTS, "Attempts.give_up",
        "self._queues.rejected(queued, decision.waits_for, now",
        "self._queues.rejected(queued, decision.rejected_by, now",
        (DEFAULT,),
    ),
    Mutation(
        "nominations are cleared one after the other",
        OBJECTS, "Preemptions._clear_nominations",
        "lower = [one for one in self._nominations.on(node).values() if rank(one) < rank(pod)]",
        "all_ = list(self._nominations.on(node).values())\n"
        "        lower = (one for one in all_ if rank(one) < rank(pod))",
        ("tests/unit/engine/test_group_nominations.py",),
    ),
    Mutation(
        "victims of a pod get no event",
        EVICTION_EVENT, "preempted_event",
        "return msgspec.structs.replace(\n        about, scheduler_name=profile, "
        "related=(related.namespace, related.name, related.uid)\n    )",
        "return msgspec.structs.replace(about, scheduler_name=profile)",
        (UNITS,),
    ),
    Mutation(
        "the event of a victim has another reason",
        EVICTION_EVENT, "preempted_event",
        '"Normal", reasons.PREEMPTED, "Preempting"',
        '"Normal", reasons.PREEMPTING, "Preempting"',
        (UNITS,),
    ),
    Mutation(
        "released members get no event",
        EVICTION_EVENT, "released_event",
        '"Warning", reasons.GROUP_RELEASED, "Releasing"',
        '"Warning", reasons.PREEMPTING, "Releasing"',
        (LIFECYCLE, "-k", "never_whole"),
    ),
    Mutation(
        "the rest of a group does not go with a victim",
        EVICTION_EVENT, "_Joined.companions",
        "return Companions(here, tuple((one, row) for one, row in rows if row is not None))",
        "return Companions(here, ())",
        (UNITS,),
    ),
    Mutation(
        "the rest of a group stays when an extender has had its word",
        EVICTION_EVENT, "best_offer",
        "tuple(one for one, _ in units.with_their_groups(_victims(best, nodes)))",
        "tuple(_victims(best, nodes))",
        (UNITS,),
    ),
    Mutation(
        "whom a group can spare stays when the rest of it goes",
        EVICTION_EVENT, "examine",
        "        among[among] = ~((rest[numbers] >= 0) & dry_run.gone[rest[numbers]])\n", "",
        (UNITS,),
    ),
    Mutation(
        "who is going already is spared once more",
        EVICTION_EVENT, "UnitIndex.surplus",
        "return max(0, gang.unit.surplus - going)", "return gang.unit.surplus",
        ("tests/unit/engine/test_group_shrinking.py",),
    ),
    Mutation(
        "victims go before their event is written",
        EVICTION_EVENT, "Executor._evict",
        "await self._recorder.settle(effect.uid)", "pass",
        (INVARIANTS, "-k", "before_its_event"),
    ),
    Mutation(
        "victims are marked without a reason",
        EVICTION_EVENT, "PodEvictor._mark",
        "body = disruption_patch(effect.uid, effect.message,",
        'body = disruption_patch(effect.uid, "",',
        (INVARIANTS,),
    ),
    Mutation(
        "pods evict pods of equal priority",
        PRIORITY, "Victims.__init__",
        "kept = kept[joined.fields[PRIORITY, kept] < priority]",
        "kept = kept[joined.fields[PRIORITY, kept] <= priority]",
        (INVARIANTS,),
    ),
    Mutation(
        "the eviction event names a pod that is no preemptor",
        PRIORITY, "EventBodies.event",
        'related = _Ref("Pod", namespace, other, uid, "v1")',
        'related = _Ref("Pod", namespace, other, record.uid, "v1")',
        (INVARIANTS,),
    ),
    Mutation(
        "budgets do not count in the choice of a node",
        BUDGET, "harms_of",
        "        block.violations,\n        highest,",
        "        block.violations * 0,\n        highest,",
        (INVARIANTS,),
    ),
    Mutation(
        "who is in a budget is not spared first",
        BUDGET, "examine",
        "~is_first, pods.index))", "is_first, pods.index))",
        (INVARIANTS,),
    ),
    Mutation(
        "the lease is taken from one who holds it",
        LEASE, "Election._try",
        "if is_taken and (self.is_leader or self._record.expires_in_s(now) > 0):",
        "if is_taken and self.is_leader:",
        (INVARIANTS, TAKEOVER),
    ),
    Mutation(
        "a leader believes in its lease for longer than others do",
        LEASE, "Election.__init__",
        "        self._settings = settings\n",
        "        self._settings = msgspec.structs.replace(settings, renew_deadline_s=60.0)\n",
        (INVARIANTS,),
    ),
    Mutation(
        "the fence opens from the response of a renewal instead of its sending",
        LEASE, "Election._write",
        "sent_at + self._settings", "self._clock.now() + self._settings",
        (ELECTION,),
    ),
    Mutation(
        "a leader that reads another holder continues until its own deadline",
        LEASE, "Election._hold",
        " or not self._record.is_ours", "",
        (ELECTION,),
    ),
    Mutation(
        "a half bound group is dissolved although the bind time of a member is unknown",
        OBJECTS, "never_whole",
        " or None in bound", "",
        (PAST,),
    ),
    Mutation(
        "a gang whose eviction a budget has counted is counted again",
        BUDGET, "_Lookup._count",
        "                if name not in self._disrupted.get(budget, ())\n", "",
        (UNITS,),
    ),
    Mutation(
        "a group is placed with a member that was deleted while it was planned",
        WHOLE, "Groups._is_intact",
        "not self._refused.is_waiting(member) or ", "",
        (PLANNING,),
    ),
    Mutation(
        "the lease is released while binds are in flight",
        LEASE, "Election.run",
        "if self._fence.may_be_late:", "if False:",
        (TAKEOVER,),
    ),
    Mutation(
        "a group gets an event for each of its members",
        NEEDLESS, "announce",
        "if calls and _is_recently_sent(kind, obj, report):",
        "if report.is_bound and calls and _is_recently_sent(kind, obj, report):",
        ("tests/property/test_group_writes.py", "-k", "not_complete"),
    ),
    Mutation(
        "a pod's condition is written again when it says nothing new",
        NEEDLESS, "scheduler/engine/attempt/failure.py",
        "    if not is_changed and nominated_node is None:\n        return None\n    condition = "
        "None\n    if is_changed:",
        "    condition = None\n    if True:",
        (INVARIANTS, "-k", "changes_something"),
    ),
    Mutation(
        "simulate forgets a victim",
        EVICTION_EVENT, "SimulationRun._decided",
        "for victim in decision.victims:",
        "for victim in decision.victims[1:]:",
        (SIMULATED,),
    ),
    Mutation(
        "the skew of a spread between members is not looked at",
        CERTIFICATE, "Layers._masks", "if not domains.max_skew:", "if True:", (SOLVER,),
    ),
    Mutation(
        "pods that are there already do not count in a spread",
        CERTIFICATE, "spread",
        "existing=tuple(counts),", "existing=(0,) * len(counts),",
        (CERTIFICATES,),
    ),
    Mutation(
        "anti-affinity between members is not put before the solver",
        CERTIFICATE, f"{_GROUPS}planning/between.py",
        "found += [DomainRule(name, tuple(sets), at_most=1 + n) for n, sets in by_number.items()]",
        "pass",
        (CERTIFICATES,),
    ),
    Mutation(
        "rules count pods that have been evicted",
        CERTIFICATE, "rules_after",
        "gone[name, number] += times * pods", "gone[name, number] += 0",
        (SOLVER,),
    ),
    Mutation(
        "the largest size that fits is called the next larger one",
        CERTIFICATE, "scheduler/groups/solver/explain.py",
        "int(above[0])", "int(above[-1])", (SOLVER,),
    ),
    Mutation(
        "results that break a rule of a level are returned",
        CERTIFICATE, "level_problems",
        "if rule.is_hard_spread and pods > 1:", "if False:",
        (SOLVER, "tests/unit/solver/test_check.py"),
    ),
    Mutation(
        "greedy's answer is called proven",
        CERTIFICATE, "_greedy",
        'Stage(level, measure, value, NOTHING, "")\n        for level, measure, value in '
        'checker.objective(instance, taken)',
        'Stage(level, measure, value, value, "greedy")\n        for level, measure, value in '
        'checker.objective(instance, taken)',
        _KEPT,
    ),
    Mutation(
        "bounds of one answer are claimed for a better one",
        CERTIFICATE, _SOLVE,
        "min(one.bound, better.value) if at <= first else NOTHING",
        "min(one.bound, better.value)",
        _BOUNDS,
    ),
    Mutation(
        "a worse answer with proofs is kept over a better one",
        BETTER, _SOLVE,
        "if mine <= others:\n        return found", "if mine:\n        return found",
        _BOUNDS,
    ),
    Mutation(
        "greedy's answer is kept over the exact program's",
        BETTER, _SOLVE,
        'if solver == "Exact":\n        return guess\n',
        'if solver != "CPSAT":\n        return guess\n',
        _KEPT,
    ),
    Mutation(
        "the exact program is not tried",
        BETTER, _SOLVE,
        "    layered = layers.of(instance)\n    known = None\n",
        "    layered = None\n    known = None\n",
        _KEPT,
    ),
    Mutation(
        "a bind that was put off is sent without asking again",
        CAPACITY, "Executor._bind.check",
        "if why := self._objection(effect):", 'if why := "":',
        (INVARIANTS, "-k", "too_small_by_then"),
    ),
    Mutation(
        "a node that has become too small is no objection",
        CAPACITY, "objection",
        "short_of(pod, cluster) - pod.short", "set[str]()",
        (INVARIANTS, "-k", "too_small_by_then"),
    ),
    Mutation(
        "a member is bound though all others were refused",
        WHOLE, "Bindings.objection",
        " or self.group_objection(pod.uid)", "",
        (INVARIANTS, "-k", "does_not_begin"),
    ),
    Mutation(
        "members who are about to be called back count as having a place",
        WHOLE, "GroupBindings._without_place",
        "            yield from binding.left\n", "            pass\n",
        ("tests/unit/engine/test_groups.py", "-k", "to_be_recalled"),
    ),
    Mutation(
        "members whose node has gone count as having a place",
        WHOLE, "GroupBindings._without_place",
        "lost[place] = bool(objection(member, self._cluster))", "lost[place] = False",
        ("tests/unit/engine/test_groups.py", "-k", "have_no_place"),
    ),
    Mutation(
        "a group in a group begins however few of its members have a place",
        WHOLE, "short",
        "    for node in _above(spec.tree, own):\n",
        "    for node in _above(spec.tree, own)[:1]:\n",
        ("tests/unit/engine/test_group_composite.py", "-k", "fewer_than_it_needs"),
    ),
    Mutation(
        "a bind is sent again whatever the group needs by now",
        WHOLE, "GroupBindings.objection",
        "return binding.planner.group_short(binding.key, uid, binding.uids, displaced)",
        'return ""',
        (LIFECYCLES, "-k", "stays_mended"),
    ),
    Mutation(
        "the rest of a group is decided while binds of members are in flight",
        OBJECTS, "ClusterTopologyPlacementGroup.group_wanted",
        "if any(placed.assumed for placed in bound):",
        "if spec.is_minimum and any(placed.assumed for placed in bound):",
        (LIFECYCLES, "-k", "stays_mended"),
    ),
    Mutation(
        "an edited description counts as old as its object",
        OBJECTS, "ConfigMapGroups.size_set_at",
        "times = [obj.set_at(*path) for path in _SET_FIELDS]", "times: list[str | None] = []",
        (LIFECYCLE, "-k", "described_larger or enlarged"),
    ),
    Mutation(
        "a group in a group that was said to be scheduled is said to wait",
        OBJECTS, "InnerGroupWriter._say",
        "elif self._final.get(node.key) == obj.metadata.uid:", "elif False:",
        ("tests/faults/test_tree_lifecycles.py", "-k", "stays_mended"),
    ),
    Mutation(
        "whom to evict is not looked at again when the solver has answered",
        WHOLE, "GroupEvictor.disruption",
        "if unit.surplus < here < len(unit.pods):", "if False:",
        (LIFECYCLES, "-k", "stays_mended"),
    ),
    Mutation(
        "members that may not evict take capacity that others have freed",
        VAIN, "NominatedPods.for_pod",
        "if keeps_nominations or (is_member and not may_evict):", "if keeps_nominations:",
        (WORKLOADS, "-k", "stays_right"),
    ),
    Mutation(
        "heterogeneous members beyond the minimum take reserved capacity",
        VAIN, "Planner._first_placed",
        "has_lower = task.context", "has_lower = not task.is_heterogeneous and task.context",
        ("tests/property/test_nominated_capacity.py",),
    ),
    Mutation(
        "a group releases its nodes while victims terminate there",
        VAIN, "Planner.plan",
        "awaited = awaits_capacity(context, self._handle)", "awaited = False",
        (WORKLOADS, "-k", "stays_right"),
    ),
    Mutation(
        "a right is missing: the status of pods",
        RIGHT, "charts/trellis/templates/rbac.yaml",
        "  resources: [pods/status]\n", "  resources: [pods/none]\n",
        (RIGHTS, "-k", "plain"), real=True,
    ),
    Mutation(
        "a right too many: Secrets",
        RIGHT, "charts/trellis/templates/rbac.yaml",
        "resources: [nodes, namespaces, services, replicationcontrollers]",
        "resources: [nodes, namespaces, services, replicationcontrollers, secrets]",
        (RIGHTS, "-k", "plain"), real=True,
    ),
    Mutation(
        "a page asks for a field that is not there",
        CLAIM, "docs/runbooks/TrellisBindConflicts.md",
        "BY:.reportingComponent", "BY:.reportedBy", (CLAIMS,),
    ),
    Mutation(
        "the chart takes another Kubernetes than the page says",
        CLAIM, "scheduler/about.py", 'OLDEST_KUBERNETES: Final = "1.30"',
        'OLDEST_KUBERNETES: Final = "1.31"',
        (CLAIMS,),
    ),
    Mutation(
        "a conflict is named of which a part can be left out",
        NAMED, "ChangeSearch._irreducible",
        "if rest and self._cannot_meet(rest):", "if rest and not self._cannot_meet(rest):", (WHY,),
    ),
    Mutation(
        "the shortage of a node is reported too small",
        NAMED, "SuggestionSearch._on_node",
        'f"status.allocatable[{resource}]", "add", text)',
        'f"status.allocatable[{resource}]", "add", "1")',
        (WHY,),
    ),
    Mutation(
        "a suggestion names another node than the one where the pod goes",
        NAMED, "SuggestionSearch.suggestion",
        "return 1.0 + len(given_up), Suggestion(decision.node, changes, text)",
        'return 1.0 + len(given_up), Suggestion("n0", changes, text)',
        (WHY,),
    ),
    Mutation(
        "numbers of tasks bind although the minimum is below their sum",
        SOURCE, "_tasks",
        "if not minimums or members < sum(minimums.values()):", "if not minimums:",
        (GROUP_SOURCES, "-k", "volcano"),
    ),
    Mutation(
        "a rule for a tier leaves the tiers above it open",
        SOURCE, "scheduler/groups/topology/hypernodes.py",
        "for level in inner[: lowest + 1]}", "for level in inner[lowest + 1 :]}",
        (GROUP_SOURCES, "-k", "hypernodes"),
    ),
    Mutation(
        "a level that is required leaves those above it open",
        SOURCE, "scheduler/groups/topology/kueuelevels.py",
        "for level in tree.levels[: depth + 1]}", "for level in tree.levels[depth : depth + 1]}",
        (GROUP_SOURCES, "-k", "kueue"),
    ),
    Mutation(
        "a reserved destination counts for no other pod",
        MOVED, "Reservations._count",
        "elif one.key not in self._lifted and not self._nominations.node_of(one.key):",
        "elif False:",
        (RESERVED,),
    ),
    Mutation(
        "a destination is reserved without the host ports of the pod",
        MOVED, "_placeholder",
        "ports=move.host_ports", "ports=()", (RESERVED,),
    ),
    Mutation(
        "the node that an evicted pod leaves is not reserved",
        MOVED, "Reservations._count_source",
        "elif one.source_key not in self._lifted and one.source_key not in self._nominations:",
        "elif False:",
        (RESERVED, "-k", "taken_leaves_the_source"),
    ),
    Mutation(
        "a scale-up before the eviction takes the destination",
        MOVED, "Reservations._for_pods",
        " and self._has_left(one)", "", (RESERVED,),
    ),
    Mutation(
        "an aborted plan keeps its reservations",
        MOVED, "Reservations.planned",
        " and plan.status.phase == EXECUTING", "", (RESERVED, "-k", "ends_a_reservation"),
    ),
    Mutation(
        "an eviction names no uid",
        MOVED, "MovePlanOperator._evict",
        '{"preconditions": {"uid": move.uid}}', "{}", (MOVES, "-k", "approved_plan"),
    ),
    Mutation(
        "all moves of a plan are one step",
        MOVED, "current",
        "first_step([move for move in plan.status.moves if move.state != DONE])",
        "tuple([move for move in plan.status.moves if move.state != DONE])",
        (MOVES, "-k", "approved_plan"),
    ),
    Mutation(
        "a pod is evicted whatever the check finds",
        MOVED, "MovePlanOperator._check_and_evict",
        "        if action is not None:\n            return action\n", "",
        (MOVES, "-k", "cannot_go_on"),
    ),
    Mutation(
        "what another plan reserves is free for a plan",
        MOVED, "scheduler/moves/cluster.py",
        "(int(column[row]) - reserved[resource]) // unit", "int(column[row]) // unit", (OTHERS,),
    ),
    Mutation(
        "a plan takes what a preempting pod waits for",
        MOVED, "scheduler/moves/pending.py",
        "bound=(*snapshot.bound, *nominated), unbound=()", "unbound=()", (OTHERS,),
    ),
    Mutation(
        "a pod that an executing plan moves is moved by another plan",
        MOVED, "Eligibility._state",
        "if (plan := self._moving.get(pod.metadata.uid)) is not None:",
        "if (plan := self._moving.get(pod.metadata.name + '?')) is not None:",
        (OTHERS,),
    ),
    Mutation(
        "annotations are not read again before an eviction",
        MOVED, "scheduler/moves/executing.py",
        "why = builder.eligibility.why_forbidden(step.pod)", 'why = ""', (CHECKS,),
    ),
    Mutation(
        "a plan that was calculated earlier moves an owner in its cool-down",
        MOVED, "MovePlanOperator._check_and_evict",
        "tuple(sorted(self._cooling(plan))),", "(),", (MOVES, "-k", "twice_within"),
    ),
    Mutation(
        "a check ignores the cool-down of owners",
        MOVED, "scheduler/moves/executing.py",
        "rules = _rules(question.spec, question.cooling)", "rules = _rules(question.spec, ())",
        (CHECKS, "-k", "moved_an_owner"),
    ),
    Mutation(
        "the destination is not judged again before an eviction",
        MOVED, "scheduler/moves/executing.py",
        "rejected = evaluator.rejected(steps)", "rejected = evaluator.rejected([])", (CHECKS,),
    ),
)  # fmt: skip
