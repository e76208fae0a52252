from rack_age import RackAge
from scheduler.testing import Scenario, check_plugin, evaluate, node, pod

AGE = "example.com/rack-age-days"


def on_rack(name, days):
    return node(name, labels={AGE: str(days)})


def test_old_racks_are_rejected_and_the_youngest_wins():
    nodes = [on_rack("old", 400), on_rack("mid", 90), on_rack("new", 0)]

    got = evaluate(RackAge, args={"maxAgeDays": 100}, nodes=nodes, pod=pod())

    assert ("node(s) were on an old rack",) == got.filter["old"].reasons
    assert 100 == got.normalized["new"]


def test_it_keeps_the_invariants_of_plugins():
    check_plugin(RackAge, nodes=[on_rack("old", 400), on_rack("new", 0)])


def test_a_pod_waits_for_a_younger_rack():
    scenario = Scenario(on_rack("n", 400), pod("p"), plugins=[RackAge])
    scenario.run()
    assert "0/1 nodes are available: 1 node(s) were on an old rack." in scenario.message("p")

    scenario.apply(on_rack("n", 0))
    scenario.advance(1)
    assert "n" == scenario.node_of("p")
