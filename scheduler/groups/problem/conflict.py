"""The search for a smallest set of rules that cannot hold together, and for a smallest set to give
up.

`Trials` answers whether the group fits under a set of rules: yes (a placement was found), no
(proven), or unknown (the time is over). Only proven answers enter a result, so every statement of
an `Advice` is true under any time limit; a shorter limit yields fewer statements. Fewer rules never
make a placement impossible: each answer therefore decides all subsets (fits) or all supersets (does
not fit) as well.
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
    """Return a smallest conflict among rules and a smallest set to give up, in the order of
    `ordered`.

    The caller has proven that the group does not fit under all of `ordered`. Without any placement
    even under no rule, the advice has no conflict, and `is_size` states whether that is proven.
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
    if is_over():  # a long list that was not reduced to the end is true, but no help
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
    """The results for sets of rules: `fitting` and `conflicting` ones, and the unknown ones."""

    def __init__(self, fits: Callable[[Rules], bool | None], is_over: Callable[[], bool]) -> None:
        self._trial, self.is_over = fits, is_over
        self.fitting: list[Rules] = []
        self.conflicting: list[Rules] = []
        self._unknown: set[Rules] = set()

    def fits(self, kept: Rules) -> bool | None:
        """Return whether the group fits under `kept`, by an earlier result where one decides it."""
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
        """Return a conflicting subset without the rules that are proven dispensable."""
        for one in sorted(conflicting, key=str):
            if self.fits(conflicting - {one}) is False:
                conflicting -= {one}
        return conflicting

    def extended(self, fitting: Rules, rules: Rules) -> Rules:
        """Return a fitting superset with every rule of `rules` under which a placement was
        found.
        """
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
    """Return a smallest set of rules without which a placement was found; `known` is one."""
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

    At least `least` pods of an elastic group of up to `size` have to fit; 0 stands for all. With
    `is_infeasible` an advice without a conflict means that time was over first.
    """
    least = least or size
    if not advice.conflict:
        return _pods(size, least) if is_infeasible else f"the group of {size} fits"
    enough = "all fit" if least == size else f"at least {least} fit{'s' * (least == 1)}"
    if advice.conflict[0].rule == "size":
        helps = [f"the nodes have room for {advice.free}"]
    else:
        helps = [reasons(advice, enough)]
    near = [str(n) for n in (advice.smaller, advice.larger) if n]
    if near:
        helps.append(f"a group of {' or '.join(near)} would fit")
    return f"{_pods(size, least)}: {'; '.join(helps)}"


def reasons(advice: Advice, enough: str) -> str:
    """Return which rules conflict and without which `enough`; '' if capacity is the cause."""
    rules = [one for one in advice.conflict if one.rule != "size"]
    if not rules:
        return ""
    names = " and ".join(_name(one) for one in rules)
    text = f"{names} cannot hold" + " together" * (len(rules) > 1)
    alone = [_name(one) for one in rules if one.fits_without]
    if alone:
        return f"{text}; without {' or '.join(alone)} {enough}"
    if advice.give_up:
        return f"{text}; without {' and '.join(_name(one) for one in advice.give_up)} {enough}"
    return text


def _pods(size: int, least: int) -> str:
    """Say that not enough of a group's pods fit."""
    if least < size:
        return (
            f"none of {size} pods fits" if least == 1 else f"fewer than {least} of {size} pods fit"
        )
    return "1 pod does not fit" if size == 1 else f"{size} pods do not fit"


def _name(one: Conflict) -> str:
    if one.rule == "hard":
        return f"{one.level} hard {one.value}"
    return f"{one.level} {one.rule} {one.value}".strip()
