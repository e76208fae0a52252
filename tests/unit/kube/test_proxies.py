"""The environment's proxies are read as kubectl reads them."""

import pytest

from scheduler.kube.connection.access import proxy_of

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("server", "no_proxy", "is_direct"),
    [
        ("https://127.0.0.1:6443", "", True),
        ("https://127.8.9.1", "", True),
        ("https://localhost:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://10.0.0.1", "", False),
        ("https://10.0.0.1", "10.0.0.0/8", True),
        ("https://11.0.0.1", "10.0.0.0/8", False),
        ("https://10.0.0.1", "10.0.0.1", True),
        ("https://10.0.0.11", "10.0.0.1", False),
        ("https://10.0.0.1:6443", "10.0.0.1:6443", True),
        ("https://10.0.0.1:6443", "10.0.0.1:443", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://api.example.com", "example.com", True),
        ("https://example.com", "example.com", True),
        ("https://notexample.com", "example.com", False),
        ("https://api.example.com", ".example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://api.example.com", "*.example.com", True),
        ("https://API.Example.com", "other, example.COM", True),
        ("https://api.example.com", "nonsense/33, *", True),
        ("https://api.example.com", "nonsense/33,,", False),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com:6443", "example.com:443", False),
        ("http://api.example.com", "", True),
    ],
)
def test_who_goes_through_the_proxy(
    server: str, no_proxy: str, is_direct: bool, monkeypatch: pytest.MonkeyPatch
):
    """Requests to this machine never use a proxy; NO_PROXY has names, domains, addresses and
    networks.
    """
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("no_proxy", no_proxy)

    assert (None if is_direct else PROXY) == proxy_of(server)


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_a_url_without_a_port_has_the_port_of_its_scheme(
    scheme: str, port: int, monkeypatch: pytest.MonkeyPatch
):
    """An entry of NO_PROXY with a port covers it as if the URL named that port."""
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", PROXY)
    for listed in (79, 80, 81, 442, 443, 444):
        monkeypatch.setenv("no_proxy", f"example.com:{listed}")
        expected = None if listed == port else PROXY
        assert expected == proxy_of(f"{scheme}://example.com")
        assert expected == proxy_of(f"{scheme}://example.com:{port}")
