"""The health endpoints have the format of Kubernetes' components."""

import json

from tests.unit.serve.conftest import ServerRig


async def test_healthy_endpoints_return_ok_without_credentials(rig: ServerRig):
    """The three endpoints respond `ok` without credentials, and no review is requested."""
    rig.health.register("leaderElection", lambda: None, "healthz", "readyz")
    async with rig.serving() as visitor:
        for path in ("/healthz", "/livez", "/readyz"):
            status, headers, text = await visitor.get(path)

            assert (200, "ok") == (status, text)
            assert "text/plain; charset=utf-8" == headers["Content-Type"]
            assert "nosniff" == headers["X-Content-Type-Options"]
    assert [] == rig.reviewer.asked


async def test_verbose_names_each_check_in_order(rig: ServerRig):
    """`?verbose` lists the checks in order of registration; an endpoint without any has ping."""
    for name in ("leaderElection", "shutdown", "sched-handler-sync"):
        rig.health.register(name, lambda: None, "readyz")
    async with rig.serving() as visitor:
        readyz = await visitor.page("/readyz?verbose")
        livez = await visitor.page("/livez?verbose=true")

    expected = "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\n"
    assert expected + "readyz check passed\n" == readyz
    assert "[+]ping ok\nlivez check passed\n" == livez


async def test_a_failure_is_500_without_the_reason(rig: ServerRig):
    """A failed check names itself but not its reason, because the endpoint is open."""
    rig.health.register("leaderElection", lambda: None, "healthz")
    rig.health.register("operators", lambda: "numbers of /etc/x", "healthz")
    async with rig.serving() as visitor:
        status, _, text = await visitor.get("/healthz")

    assert 500 == status
    lines = ["[+]leaderElection ok", "[-]operators failed: reason withheld", "healthz check failed"]
    assert lines == text.splitlines()


async def test_exclude_leaves_checks_out_and_warns_of_unknown_ones(rig: ServerRig):
    """An excluded check is not run; an unknown name is reported, sorted and quoted."""
    rig.health.register("shutdown", lambda: "going down", "readyz")
    rig.health.register("other", lambda: None, "readyz")
    async with rig.serving() as visitor:
        text = await visitor.page('/readyz?verbose&exclude=shutdown&exclude=z&exclude=y"&exclude=z')

    assert text.splitlines() == [
        "[+]shutdown excluded: ok",
        "[+]other ok",
        'warn: some health checks cannot be excluded: no matches for "y\\"","z"',
        "readyz check passed",
    ]


async def test_a_single_check_reports_its_reason_to_authorized_clients(rig: ServerRig):
    """`/readyz/<check>` gives the reason, needs access, and is 404 for an unknown check."""
    rig.health.register("leaderElection", lambda: "lease lost", "readyz")
    async with rig.serving() as visitor:
        assert 403 == (await visitor.get("/readyz/leaderElection"))[0]
        visitor.token = "good"
        status, _, text = await visitor.get("/readyz/leaderElection")
        assert (500, "internal server error: lease lost\n") == (status, text)
        assert (404, "404 page not found\n") == (await visitor.get("/readyz/none"))[::2]

        rig.health.register("leaderElection", lambda: None, "readyz")
        assert "ok" == await visitor.page("/readyz/leaderElection")


async def test_check_that_raises_has_failed(rig: ServerRig):
    """An exception in a check makes the endpoint unhealthy and has no other effect."""
    rig.health.register("broken", lambda: json.loads("{"), "livez")
    async with rig.serving() as visitor:
        status, _, text = await visitor.get("/livez")

    assert 500 == status
    assert "JSON" not in text


async def test_slis_count_each_answer(rig: ServerRig):
    """`/metrics/slis` holds the last and the number of answers per check and endpoint."""
    rig.health.register("shutdown", lambda: None, "readyz")
    async with rig.serving() as visitor:
        await visitor.get("/readyz")
        rig.health.register("shutdown", lambda: "bye", "readyz")
        await visitor.get("/readyz")
        visitor.token = "good"
        text = await visitor.page("/metrics/slis")

    total = "kubernetes_healthchecks_total"
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'kubernetes_healthcheck{name="shutdown",type="readyz"} 0.0',
        total + '{name="shutdown",status="success",type="readyz"} 1.0',
        total + '{name="shutdown",status="error",type="readyz"} 1.0',
    ]
