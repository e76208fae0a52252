"""The search for a smallest set of conflicting rules, and for a smallest set of rules to give up.

A trial states whether the group fits under a set of rules: yes (a placement was found), no
(proven), or unknown (the time limit was reached). Only the first two enter a result, so every
statement of an `Advice` is true under any time limit; a shorter limit yields fewer statements.
Removing a rule never makes a placement impossible: if a set fits, its subsets fit; if a set
conflicts, its supersets conflict.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from scheduler.groups.problem.answer import Advice, Conflict

MOST_NAMED = 6
Rules: TypeAlias = frozenset[Conflict]


def advice_of(
    ordered: Sequence[Conflict], fits: Callable[[Rules], bool | None], is_over: Callable[[], bool]
) -> Advice:
    """Return a smallest conflict among `ordered`, and a smallest set of rules to give up.

    The caller has proven that the group does not fit under all of `ordered`. If no placement is
    found under no rule either, the advice has no conflict; `is_size` states whether that is proven.
    """
    rules, search = frozenset(ordered), Trials(fits, is_over)
    search.conflicting.append(rules)
    bare = search.fits(frozenset())
    if not bare:
        return Advice((), smallest=False, is_size=bare is False)
    order = {one: at for at, one in enumerate(ordered)}
    # Single rules first: they are the fastest trials, and each that conflicts decides many larger
    # sets.
    alone = [one for one in sorted(rules, key=str) if search.fits(frozenset((one,))) is False]
    found = frozenset(alone[:1]) or search.reduced(rules)
    given_up = rules - search.extended(frozenset(), rules)
    found, is_smallest = _smallest(rules, found, search)
    given_up = _fewest(rules, given_up, search)
    if is_over():  # a set of more than six rules that was not fully reduced helps no user
        found = found if len(found) <= MOST_NAMED else frozenset()
        given_up = given_up if len(given_up) <= MOST_NAMED else frozenset()
    marked = tuple(
        msgspec.structs.replace(one, fits_without=search.fits(rules - {one}) is True)
        for one in sorted(found, key=order.__getitem__)
    )
    return Advice(
        marked,
        smallest=is_smallest,
        give_up=tuple(sorted(given_up, key=order.__getitem__)),
    )


class Trials:
    """The results of all trials: sets of rules that fit, that conflict, and that are undecided."""

    def __init__(self, fits: Callable[[Rules], bool | None], is_over: Callable[[], bool]) -> None:
        self._trial, self.is_over = fits, is_over
        self.fitting: list[Rules] = []
        self.conflicting: list[Rules] = []
        self._unknown: set[Rules] = set()

    def fits(self, kept: Rules) -> bool | None:
        """Return whether the group fits under `kept`, by an earlier result if one decides it."""
        if any(kept <= one for one in self.fitting):
            return True
        if any(one <= kept for one in self.conflicting):
            return False
        if kept in self._unknown or self.is_over():
            return None
        found = self._trial(kept)
        if found is None:
            self._unknown.add(kept)
        else:
            (self.fitting if found else self.conflicting).append(kept)
        return found

    def reduced(self, conflicting: Rules) -> Rules:
        """Return a conflicting subset: remove each rule without which the set is proven to
        conflict.
        """
        for one in sorted(conflicting, key=str):
            if self.fits(conflicting - {one}) is False:
                conflicting -= {one}
        return conflicting

    def extended(self, fitting: Rules, rules: Rules) -> Rules:
        """Return a fitting superset: add each of `rules` with which a placement is still found."""
        for one in sorted(rules - fitting, key=str):
            if self.fits(fitting | {one}):
                fitting |= {one}
        return fitting


def _smallest(rules: Rules, found: Rules, search: Trials) -> tuple[Rules, bool]:
    """Return a smallest conflicting set, `found` if none is smaller, and whether that is proven."""
    is_proven = True
    for number in range(1, len(found)):
        for some in _subsets(rules, number):
            if search.is_over():
                return found, False
            verdict = search.fits(some)
            if verdict is False:
                return some, is_proven
            if verdict is None:
                is_proven = False
            else:
                search.extended(some, rules)
    return found, is_proven


def _fewest(rules: Rules, known: Rules, search: Trials) -> Rules:
    """Return a smallest set of rules without which a placement is found.

    `known` is such a set; it is returned if no smaller one is found before the time limit.
    """
    for number in range(1, len(known)):
        for some in _subsets(rules, number):
            if search.is_over():
                return known
            verdict = search.fits(rules - some)
            if verdict:
                return some
            if verdict is False:
                search.reduced(rules - some)
    return known


def _subsets(rules: Rules, number: int) -> Iterable[Rules]:
    return (frozenset(some) for some in itertools.combinations(sorted(rules, key=str), number))


def message(advice: Advice, size: int, least: int = 0, *, is_infeasible: bool = False) -> str:
    """Return one or two sentences: which rules conflict, and what would help.

    `least` is the minimum of an elastic group of up to `size` pods, 0 for all pods. `is_infeasible`
    states that the group does not fit although the advice has no conflict: the time limit was
    reached before one was found.
    """
    least = least or size
    if not advice.conflict:
        return _pods(size, least) if is_infeasible else f"the group of {size} fits"
    enough = "all fit" if least == size else f"at least {least} fit{'s' * (least == 1)}"
    if advice.conflict[0].rule == "size":
        helps = [f"the nodes have capacity for {advice.free}"]
    else:
        helps = [reasons(advice, enough)]
    near = [str(n) for n in (advice.smaller, advice.larger) if n]
    if near:
        helps.append(f"a group of {' or '.join(near)} would fit")
    return f"{_pods(size, least)}: {'; '.join(helps)}"


def name_of(one: Conflict) -> str:
    """Return the name of a rule: its level, its key and its value."""
    return f"{one.level} {one.rule} {one.value}".strip()


def reasons(advice: Advice, enough: str, name: Callable[[Conflict], str] = name_of) -> str:
    """Return which rules conflict and which to give up for `enough` to hold; '' without a rule."""
    rules = [one for one in advice.conflict if one.rule != "size"]
    if not rules:
        return ""

    def names(some: Iterable[Conflict]) -> list[str]:
        return list(dict.fromkeys(name(one) for one in some))

    own = names(rules)
    text = f"{' and '.join(own)} cannot hold" + " together" * (len(own) > 1)
    alone = names(one for one in rules if one.fits_without)
    if alone:
        return f"{text}; without {' or '.join(alone)} {enough}"
    if advice.give_up:
        return f"{text}; without {' and '.join(names(advice.give_up))} {enough}"
    return text


def _pods(size: int, least: int) -> str:
    """Return the first part of the message: how many of the group's pods do not fit."""
    if least < size:
        return (
            f"none of {size} pods fits" if least == 1 else f"fewer than {least} of {size} pods fit"
        )
    return "1 pod does not fit" if size == 1 else f"{size} pods do not fit"
