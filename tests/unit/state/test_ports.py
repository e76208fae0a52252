"""Host ports: conflicts and counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.pod import ContainerPort
from scheduler.state.ports import HostPorts, ports_conflict

ports = st.builds(
    lambda number, ip, protocol: ContainerPort(host_port=number, host_ip=ip, protocol=protocol),
    st.sampled_from([80, 443]),
    st.sampled_from(["", "0.0.0.0", "10.0.0.1", "::"]),
    st.sampled_from(["TCP", "UDP", ""]),
)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("10.0.0.1", "TCP"), ("10.0.0.2", "TCP"), False),
        (("10.0.0.1", "TCP"), ("", "TCP"), True),
        (("0.0.0.0", ""), ("10.0.0.2", "TCP"), True),
        (("10.0.0.1", "TCP"), ("10.0.0.1", "UDP"), False),
        (("::", "TCP"), ("10.0.0.1", "TCP"), False),
        (("::", "TCP"), ("0.0.0.0", "TCP"), True),
    ],
)
def test_conflicts(first: tuple[str, str], second: tuple[str, str], expected: bool):
    """Same protocol and number, and equal IPs or the wildcard; `::` is not special."""
    one = ContainerPort(host_port=80, host_ip=first[0], protocol=first[1])
    other = ContainerPort(host_port=80, host_ip=second[0], protocol=second[1])

    assert expected == ports_conflict(one, other) == ports_conflict(other, one)


@given(st.lists(st.tuples(st.integers(0, 2), ports)), st.lists(ports, max_size=3), st.data())
def test_the_index_equals_a_list(taken: list[tuple[int, ContainerPort]], wanted, data):
    """After any holds and releases the rows in conflict equal those of a plain list."""
    index = HostPorts()
    for row, port in taken:
        index.hold(row, [port])
    left = list(taken)
    for place in sorted(data.draw(st.sets(st.integers(0, max(len(taken) - 1, 0)))), reverse=True):
        if place < len(left):
            row, port = left.pop(place)
            index.release(row, [port])

    expected = [
        any(ports_conflict(port, own) for own_row, own in left if own_row == row for port in wanted)
        for row in range(3)
    ]
    assert expected == index.conflicts(wanted, 3).tolist()
    if not left:
        assert {} == index._used
