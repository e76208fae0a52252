"""The bandwidth agent finds the uplink and its speed, or the reason for none."""

from pathlib import Path

import pytest

from operators.agents.bandwidth.links import LinkError, LinkSpeed, default_link, speed

HEADER = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
ZERO = "0" * 32


def sysfs(root: Path, **links: str) -> Path:
    """Make links from texts: `up 1000 device`, `lower=NAME`, `bonding`; a speed `-` is no file."""
    for name, words in links.items():
        folder = root / "class" / "net" / name
        folder.mkdir(parents=True)
        state, megabits, *more = words.split()
        (folder / "operstate").write_text(f"{state}\n")
        if megabits != "-":
            (folder / "speed").write_text(f"{megabits}\n")
        for word in more:
            kind, _, below = word.partition("=")
            (folder / (f"lower_{below}" if kind == "lower" else kind)).mkdir()
    return root


@pytest.mark.parametrize(
    ("links", "assumed", "source", "bits_per_s"),
    [
        ({"eth0": "up 10000 device"}, 0, "eth0", 10_000_000_000),
        ({"eth0": "unknown 1000 device"}, 0, "eth0", 1_000_000_000),
        ({"eth0": "up -1 device"}, 25, "eth0", 25),
        ({"eth0": "up - device"}, 25, "eth0", 25),
        ({"eth0": "up 100 device"}, 25, "eth0", 100_000_000),
        ({"eth0": "up 50000 bonding lower=a lower=b"}, 0, "eth0", 50_000_000_000),
        ({"eth0": "up -1 lower=card", "card": "up 1000 device"}, 0, "card", 1_000_000_000),
        (
            {
                "eth0": "up 5 lower=bond lower=veth",
                "veth": "up 10000",
                "bond": "up 2000 bonding lower=card",
                "card": "up 1000 device",
            },
            0,
            "bond",
            2_000_000_000,
        ),
    ],
)
def test_a_link_is_as_fast_as_its_hardware(tmp_path, links, assumed, source, bits_per_s):
    """Speeds are in bit/s; VLANs, bridges and bonds have hardware below them, a pod's veth does
    not.
    """
    found = speed(sysfs(tmp_path, **links), "eth0", assumed)

    assert found == LinkSpeed("eth0", source, bits_per_s)


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        ({}, "eth0: there is no such interface"),
        ({"eth0": "down 1000 device"}, "eth0: is down"),
        ({"eth0": "lowerlayerdown -1 device"}, "eth0: is lowerlayerdown"),
        ({"eth0": "up -1 device"}, "eth0: does not tell its speed"),
        ({"eth0": "up 0 device"}, "eth0: does not tell its speed"),
        ({"eth0": "up 2147483647 device"}, "eth0: does not tell its speed"),
        ({"eth0": "up fast device"}, "eth0: does not tell its speed"),
        ({"eth0": "up 10000"}, "eth0: is virtual, there is no hardware below it"),
        (
            {"eth0": "up 5 lower=a lower=b", "a": "down -1 device", "b": "up 10000"},
            "a: is down; b: is virtual, there is no hardware below it",
        ),
        ({"eth0": "up 5 lower=eth0"}, "eth0: is virtual, there is no hardware below it"),
    ],
)
def test_a_link_without_a_speed_says_why(tmp_path, links, reason):
    """A link is down, virtual, silent or absent: the result is never a negative or invented
    number.
    """
    with pytest.raises(LinkError) as caught:
        speed(sysfs(tmp_path, **links), "eth0")

    assert str(caught.value) == reason


@pytest.mark.parametrize("name", ["", ".", "..", "../../secret"])
def test_a_name_is_no_path(tmp_path, name):
    """Only files of interfaces are read."""
    with pytest.raises(LinkError, match="no such interface"):
        speed(sysfs(tmp_path, eth0="up 1 device"), name)


def route(name: str, *, to: str = "00000000", flags: str = "0003", metric: int = 0) -> str:
    return f"{name}\t{to}\t01020304\t{flags}\t0\t0\t{metric}\t{to}\t0\t0\t0\n"


def route_v6(
    name: str, *, to: str = ZERO, flags: str = "00000003", metric: str = "00000400"
) -> str:
    length = "00" if to == ZERO else "40"
    return f"{to} {length} {ZERO} 00 {ZERO} {metric} 00000001 00000000 {flags} {name:>8}\n"


@pytest.mark.parametrize(
    ("v4", "v6", "expected"),
    [
        (route("eth0") + route("net", to="0000A8C0"), "", "eth0"),
        (route("slow", metric=600) + route("fast", metric=100), route_v6("other"), "fast"),
        (route("off", flags="0002"), route_v6("lo") + route_v6("eth1"), "eth1"),
        ("", route_v6("net", to="f" * 32) + route_v6("eth2"), "eth2"),
    ],
)
def test_the_default_route_leads_out(tmp_path, v4, v6, expected):
    """The interface with the default route of the lowest metric is used; IPv4 routes come first."""
    routes(tmp_path, v4, v6)

    assert default_link(tmp_path) == expected


def routes(proc: Path, v4: str, v6: str) -> None:
    (proc / "net").mkdir()
    (proc / "net" / "route").write_text(HEADER + v4)
    (proc / "net" / "ipv6_route").write_text(v6)


def test_without_a_default_route_an_interface_must_be_named(tmp_path):
    """Without a default route, or if the files are missing or invalid, the error asks for the name
    of an interface.
    """
    with pytest.raises(LinkError, match="name an interface"):
        default_link(tmp_path)
    routes(tmp_path, route("eth0", flags="what"), "")
    with pytest.raises(LinkError, match="not as the kernel writes it"):
        default_link(tmp_path)
