"""Extenders in a simulation: refused where they decide, named where they are left out."""

import pytest

from scheduler.base.errors import ConfigError
from scheduler.config.model import Extender, ExtenderManagedResource
from scheduler.simulate.cluster.extenders import skipped_extenders
from tests.property.making import make_pod

GPU = [ExtenderManagedResource("example.com/gpu")]


def extender(**fields: object) -> Extender:
    """Return an extender with a time limit, as the configuration fills it in."""
    return Extender(url_prefix="http://x", http_timeout="5s", **fields)  # type: ignore[arg-type]


def test_what_is_left_out_is_named():
    """The extender is ignorable and would be called for a pod."""
    found = skipped_extenders([extender(filter_verb="f", ignorable=True)], [make_pod("p")])

    assert ("the extender http://x is not asked: it may be ignored",) == found


@pytest.mark.parametrize("verb", ["filter_verb", "prioritize_verb", "preempt_verb"])
def test_who_has_a_say_must_be_asked(verb: str):
    """Filtering, scoring and the review of victims decide; the pod is named where one is known."""
    wanted = [extender(**{verb: "v"})]
    with pytest.raises(ConfigError, match="cannot be asked here about pod default/p;"):
        skipped_extenders(wanted, [make_pod("p")])
    with pytest.raises(ConfigError, match="cannot be asked here;"):
        skipped_extenders(wanted)

    assert () == skipped_extenders(wanted, [])


def test_extenders_that_do_not_apply_are_not_reported():
    """A binder, and an extender whose resources no pod requests, cause no notice."""
    assert () == skipped_extenders([extender(bind_verb="b")])
    other = [extender(filter_verb="f", managed_resources=GPU)]
    assert () == skipped_extenders(other, [make_pod("p")])
    with pytest.raises(ConfigError):
        skipped_extenders(other, [make_pod("p"), make_pod("q", requests={"example.com/gpu": 1})])
