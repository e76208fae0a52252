"""ImageLocality: nodes that hold the pod's images."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.plugins.imagelocality import ImageLocality, full_name
from scheduler.testing import check_plugin, evaluate, node, pod

MEBI = 2**20
LEAST, MOST = 23 * MEBI, 1000 * MEBI


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(ImageLocality)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:1", "registry:5000/app:1"),
        ("app@sha256:00", "app@sha256:00"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(image, name):
    """A colon before the last slash is a port, not a tag."""
    assert name == full_name(image)


def test_a_rare_image_counts_for_less():
    """The size is multiplied by the share of nodes that hold the image."""
    present = {"names": ["app:1"], "sizeBytes": 500 * MEBI}
    alone = evaluate(
        ImageLocality, nodes=[node("a", images=[present]), node("b")], pod=pod(image="app:1")
    )

    assert {"a": 100 * (250 * MEBI - LEAST) // (MOST - LEAST), "b": 0} == alone.raw


_images = st.lists(
    st.tuples(st.sampled_from([f"i{n}:1" for n in range(12)]), st.integers(0, 2000 * MEBI)),
    max_size=12,
)


@given(
    present=st.lists(_images, min_size=1, max_size=4),
    wanted=st.lists(st.integers(0, 13), max_size=11),
)
def test_scores_equal_a_slow_reference(present, wanted):
    """By combination of images or by sum, the scores equal those of a scan of each node."""
    nodes = [
        node(f"n{i}", images=[{"names": [name], "sizeBytes": size} for name, size in images])
        for i, images in enumerate(present)
    ]
    containers = [{"name": f"c{i}", "image": f"i{n}:1"} for i, n in enumerate(wanted)]
    if not containers:
        containers = [{"name": "c", "image": "none"}]
    got = evaluate(ImageLocality, nodes=nodes, pod=pod(spec={"containers": containers}))

    sizes: dict[str, int] = {}
    for images in present:
        for name, size in images:
            sizes.setdefault(name, size)
    for i, images in enumerate(present):
        total = 0
        for container in containers:
            name = container["image"]
            if name in {one for one, _ in images}:
                holders = sum(name in {one for one, _ in other} for other in present)
                total += int(sizes[name] * (holders / len(present)))
        most = MOST * len(containers)
        kept = min(max(total, LEAST), most)
        assert 100 * (kept - LEAST) // (most - LEAST) == got.raw[f"n{i}"]
