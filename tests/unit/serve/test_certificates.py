"""The serving certificate follows its files and is never worse than the last valid one."""

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, TCPConnector
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from scheduler.base.errors import InputError
from scheduler.serve import Files, app
from scheduler.serve.certificates import SELF_SIGNED_DAYS, self_signed
from tests.unit.serve.conftest import NOW, ServerRig, Visitor


async def shown(visitor: Visitor) -> x509.Certificate:
    """Return the certificate that a new connection is shown."""
    host, port = visitor.url.removeprefix("https://").split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(der)


def name_of(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string().removeprefix("CN=")


def put(files: Files, source: Files) -> None:
    Path(files.certificate).write_bytes(Path(source.certificate).read_bytes())
    Path(files.key).write_bytes(Path(source.key).read_bytes())


@pytest.fixture
def own_files(rig: ServerRig, tmp_path: Path) -> Files:
    """Certificate and key of the server, copied for this test."""
    rig.files = Files(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    put(rig.files, rig.authority.serving("first"))
    return rig.files


async def test_changed_files_are_shown_to_new_connections(rig: ServerRig, own_files: Files):
    """After a refresh new connections get the new certificate; open ones continue."""
    async with rig.serving() as visitor:
        assert "ok" == await visitor.page("/healthz")  # stays connected
        assert "first" == name_of(await shown(visitor))
        assert not await visitor.certificate.refresh()

        await asyncio.to_thread(put, own_files, rig.authority.serving("second"))
        assert await visitor.certificate.refresh()

        assert "second" == name_of(await shown(visitor))
        assert "ok" == await visitor.page("/healthz")
    assert 1 == rig.meters.certificate_reloads.labels("success").value


async def test_files_are_looked_at_by_themselves(
    rig: ServerRig, own_files: Files, monkeypatch: pytest.MonkeyPatch
):
    """A running server finds changed files without a call."""
    monkeypatch.setattr(app, "CERTIFICATE_INTERVAL_S", 0.01)
    async with rig.serving() as visitor, asyncio.timeout(60):
        await asyncio.to_thread(put, own_files, rig.authority.serving("second"))
        while "second" != name_of(await shown(visitor)):
            pass


@pytest.mark.parametrize("damage", ["key", "half", "empty", "gone", "encrypted"])
async def test_damaged_files_leave_the_last_good_one(rig: ServerRig, own_files: Files, damage: str):
    """A pair that does not match or cannot be read changes nothing, is counted, and recovers."""
    other = rig.authority.serving("second")

    def spoil() -> None:
        certificate, key = Path(own_files.certificate), Path(own_files.key)
        if damage == "key":
            key.write_bytes(Path(other.key).read_bytes())
        elif damage == "half":
            certificate.write_bytes(Path(other.certificate).read_bytes()[:200])
        elif damage == "empty":
            key.write_bytes(b"")
        elif damage == "gone":
            certificate.unlink()
        else:
            key.write_bytes(encrypted(key.read_bytes()))

    async with rig.serving() as visitor:
        await asyncio.to_thread(spoil)
        assert not await visitor.certificate.refresh()
        assert "first" == name_of(await shown(visitor))
        assert 1 == rig.meters.certificate_reloads.labels("error").value

        await asyncio.to_thread(put, own_files, other)
        assert await visitor.certificate.refresh()
        assert "second" == name_of(await shown(visitor))


def encrypted(key: bytes) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


async def test_without_files_one_is_made_and_renewed(rig: ServerRig):
    """A certificate made in memory names the hosts, lasts a year and is renewed before its end."""
    rig.files = Files()
    async with rig.serving() as visitor:
        first = await shown(visitor)
        names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert ["localhost"] == names.get_values_for_type(x509.DNSName)
        assert ["127.0.0.1"] == [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
        ends = NOW + SELF_SIGNED_DAYS * 86400
        assert ends == first.not_valid_after_utc.timestamp()
        assert ends == rig.meters.certificate_expiry.value

        rig.clock.advance((SELF_SIGNED_DAYS - 31) * 86400)
        assert not await visitor.certificate.refresh()
        rig.clock.advance(2 * 86400)
        assert await visitor.certificate.refresh()
        assert first.serial_number != (await shown(visitor)).serial_number


async def test_other_authority_is_not_let_in(rig: ServerRig, tmp_path: Path):
    """A client certificate of an authority that was not named fails the handshake."""
    another = await asyncio.to_thread(type(rig.authority), tmp_path)
    files = await asyncio.to_thread(another.user, "ann", "system:masters")
    rig.files = rig.files._replace(client_ca=str(rig.authority.file))
    context = rig.authority.trust()
    context.load_cert_chain(files.certificate, files.key)
    async with (
        rig.serving() as visitor,
        ClientSession(connector=TCPConnector(ssl=context)) as session,
    ):
        with pytest.raises((ClientError, OSError)):
            await session.get(visitor.url + "/metrics")
        assert "ok" == await visitor.page("/healthz")


@pytest.mark.parametrize(
    "files",
    [Files("/nowhere/tls.crt", "/nowhere/tls.key"), Files("/nowhere/tls.crt"), Files(key="k")],
)
async def test_unusable_files_at_start_are_an_input_error(rig: ServerRig, files: Files):
    """The process does not start with other settings than the given ones."""
    rig.files = files
    with pytest.raises(InputError):
        async with rig.serving():
            pass


def test_self_signed_pair_is_a_server_certificate():
    """The pair is PEM, not an authority, and differs each time."""
    pair = self_signed(["::1", "trellis.example"], NOW)
    certificate = x509.load_pem_x509_certificate(pair.certificate)

    assert f"trellis@{int(NOW)}" == name_of(certificate)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert pair.digest() != self_signed(["::1"], NOW).digest()
