"""Lists: order, selectors, pages, versions."""

import pytest

from tests.apiserver.api import STRATEGIC_PATCH, Api
from tests.apiserver.manifests import binding, config, node, pod


async def fill(api: Api, names: str = "a b c d e") -> None:
    for number, name in enumerate(names.split()):
        body = config(name, n=str(number))
        body["metadata"]["labels"] = {"set": "s", "name": name, "n": str(number)}
        await api.post("configmaps", body, record=False)


async def test_a_list_is_sorted_and_says_its_kind(api: Api):
    """Items are sorted by name, have no kind of their own, and share one version."""
    await fill(api, "b a c")
    got = await api.get("configmaps", labelSelector="set=s")

    assert ["a", "b", "c"] == got.names
    assert "ConfigMapList" == got.body["kind"]
    assert got.meta["resourceVersion"]


async def test_empty_lists_have_items(api: Api):
    """An empty list has an empty `items`."""
    assert [] == (await api.get("pods")).body["items"]
    assert [] == (await api.get("deployments")).body["items"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("name=a", "a"),
        ("name==a", "a"),
        ("set=s,name!=a", "b c d e"),
        ("name in (a,b)", "a b"),
        ("name in (a, b),n notin (0)", "b"),
        ("set,name notin (a,b,c)", "d e"),
        ("set=s,!name", ""),
        ("set,nope!=x", "a b c d e"),
        ("n>2", "d e"),
        ("set=s,n<1", "a"),
        ("set=s,name", "a b c d e"),
        ("nope", ""),
        ("nope=", ""),
    ],
)
async def test_label_selectors(api: Api, selector: str, expected: str):
    """The whole grammar of selectors is valid."""
    await fill(api)

    assert expected.split() == (await api.get("configmaps", labelSelector=selector)).names


@pytest.mark.parametrize("selector", ["a in", "a in (b", "=x", "a=b=c", "a b", "a,,b", "-a=b"])
async def test_malformed_label_selectors(api: Api, selector: str):
    """A malformed label selector returns 400."""
    assert 400 == (await api.get("configmaps", labelSelector=selector, record=False)).code


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=bound", "bound"),
        ("metadata.name!=bound", "gated other"),
        ("spec.nodeName=n1", "bound"),
        ("spec.nodeName=", "gated other"),
        ("spec.nodeName!=", "bound"),
        ("spec.schedulerName=trellis", "other"),
        ("status.phase=Pending", "bound gated other"),
        ("status.phase!=Succeeded,status.phase!=Failed", "bound gated other"),
        ("spec.restartPolicy=Never", "gated"),
        ("status.nominatedNodeName=n2", "other"),
        ("spec.nodeName=n1,status.phase=Running", ""),
    ],
)
async def test_field_selectors_of_pods(api: Api, selector: str, expected: str):
    """Schedulers and kubelets select pods by these fields."""
    await api.post("pods", pod("bound"), record=False)
    await api.post("pods/bound/binding", binding("bound", "n1"), record=False)
    gated = pod("gated", schedulingGates=[{"name": "a.b/c"}], restartPolicy="Never")
    await api.post("pods", gated, record=False)
    await api.post("pods", pod("other", schedulerName="trellis"), record=False)
    nominated = {"status": {"nominatedNodeName": "n2"}}
    await api.patch("pods/other/status", nominated, kind=STRATEGIC_PATCH, record=False)

    assert expected.split() == (await api.get("pods", fieldSelector=selector)).names


async def test_field_selector_in_all_namespaces(api: Api):
    """metadata.namespace selects across namespaces."""
    await api.post("pods", pod())
    got = await api.get("/api/v1/pods", fieldSelector=f"metadata.namespace={api.ns}")

    assert ["p"] == got.names


async def test_field_selector_of_nodes(api: Api):
    """spec.unschedulable selects nodes; an absent field counts as false."""
    name = api.name("n")
    await api.post("nodes", node(name, unschedulable=True))
    on = await api.get("nodes", fieldSelector=f"spec.unschedulable=true,metadata.name={name}")
    off = await api.get("nodes", fieldSelector=f"spec.unschedulable=false,metadata.name={name}")
    await api.delete(f"nodes/{name}")

    assert [name] == on.names
    assert [] == off.names


@pytest.mark.parametrize(
    ("where", "selector"),
    [("pods", "spec.color=red"), ("configmaps", "data.a=1"), ("nodes", "status.phase=x")],
)
async def test_unknown_fields_cannot_select(api: Api, where: str, selector: str):
    """A field selector with an unsupported field returns 400 and names the field."""
    assert 400 == (await api.get(where, fieldSelector=selector)).code


async def test_both_selectors_must_hold(api: Api):
    """Labels and fields must both match."""
    await fill(api)
    got = await api.get("configmaps", labelSelector="n>1", fieldSelector="metadata.name!=c")

    assert ["d", "e"] == got.names


async def test_pages_cover_everything_once(api: Api):
    """limit and continue walk through a list; remainingItemCount counts down."""
    await fill(api)
    names, left, token = [], [], ""
    while True:
        query = {"continue": token} if token else {}
        page = await api.get("configmaps", limit=2, labelSelector="set", record=False, **query)
        names += page.names
        left.append(page.meta.get("remainingItemCount"))
        token = page.meta.get("continue", "")
        if not token:
            break

    assert list("abcde") == names
    assert [None, None, None] == left


async def test_remaining_items_are_counted_without_selectors(api: Api):
    """The number of remaining items is returned only without selectors."""
    for name in "abc":
        await api.post("leases", {"metadata": {"name": name}}, record=False)
    page = await api.get("leases", limit=1)

    assert 2 == page.meta["remainingItemCount"]


async def test_pages_are_of_one_version(api: Api):
    """A change between two pages does not show in the later page."""
    for name in "abc":
        await api.post("leases", {"metadata": {"name": name}}, record=False)
    first = await api.get("leases", limit=2)
    await api.delete("leases/c", record=False)
    await api.post("leases", {"metadata": {"name": "d"}}, record=False)
    second = await api.get("leases", limit=2, **{"continue": first.meta["continue"]}, record=False)
    fresh = await api.get("leases")

    assert ["c"] == second.names
    assert first.meta["resourceVersion"] == second.meta["resourceVersion"]
    assert ["a", "b", "d"] == fresh.names


async def test_a_page_as_large_as_the_list_has_no_token(api: Api):
    """A page that contains all items has no continue token."""
    await api.post("leases", {"metadata": {"name": "a"}}, record=False)
    page = await api.get("leases", limit=1)

    assert "continue" not in page.meta


async def test_a_broken_token_is_refused(api: Api):
    """A malformed continue token returns 400."""
    assert 400 == (await api.get("leases", **{"continue": "%%%"}, record=False)).code


async def test_lists_at_an_exact_version(api: Api):
    """resourceVersionMatch=Exact returns the objects as they were at that version."""
    first = await api.post("leases", {"metadata": {"name": "a"}})
    await api.post("leases", {"metadata": {"name": "b"}})
    version = first.meta["resourceVersion"]
    then = await api.get(
        "leases", resourceVersion=version, resourceVersionMatch="Exact", record=False
    )
    later = await api.get(
        "leases", resourceVersion=version, resourceVersionMatch="NotOlderThan", record=False
    )

    assert ["a"] == then.names
    assert version == then.meta["resourceVersion"]
    assert ["a", "b"] == later.names


async def test_lists_from_any_version(api: Api):
    """resourceVersion=0 returns any cached state."""
    await api.post("leases", {"metadata": {"name": "a"}})

    assert 200 == (await api.get("leases", resourceVersion="0", record=False)).code


async def test_lists_from_the_future(api: Api):
    """A list at a version that does not exist yet returns a timeout error."""
    reply = await api.get("leases", resourceVersion="999999999", record=False)

    assert 504 == reply.code
    assert "ResourceVersionTooLarge" == reply.body["details"]["causes"][0]["reason"]


async def test_match_without_a_version_is_refused(api: Api):
    """resourceVersionMatch needs a resourceVersion."""
    assert 422 == (await api.get("leases", resourceVersionMatch="Exact")).code


async def test_malformed_version_is_refused(api: Api):
    """A resourceVersion that is not a number returns an error."""
    assert 400 == (await api.get("leases", resourceVersion="abc", record=False)).code


async def test_list_across_namespaces(api: Api):
    """Without a namespace in the path the objects of all namespaces are listed."""
    await api.post("pods", pod(labels={"only": api.mark}), record=False)
    got = await api.get("/api/v1/pods", labelSelector=f"only={api.mark}", record=False)

    assert ["p"] == got.names
    assert api.ns == got.body["items"][0]["metadata"]["namespace"]
