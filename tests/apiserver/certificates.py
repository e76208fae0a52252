"""Keys and certificates for a temporary API server.

Makes one authority, one serving certificate for the loopback names, and the key pair that signs
service account tokens. Used by tests.apiserver.realcluster, for tests only.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# Wide and fixed: a test must not depend on the day it runs on.
VALID_FROM = datetime(2020, 1, 1, tzinfo=UTC)
VALID_UNTIL = VALID_FROM + timedelta(days=365 * 60)
NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def write_certificates(folder: Path) -> None:
    """Write ca.crt, server.crt, server.key, sa.key and sa.pub into `folder`."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("trellis-test-ca", authority_key, None)
    server_key = ec.generate_private_key(ec.SECP256R1())
    server = _certificate("kube-apiserver", server_key, (authority, authority_key))
    accounts_key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(authority.public_bytes(pem))
    (folder / "server.crt").write_bytes(server.public_bytes(pem))
    _write_key(folder / "server.key", server_key)
    _write_key(folder / "sa.key", accounts_key)
    (folder / "sa.pub").write_bytes(
        accounts_key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
) -> x509.Certificate:
    """Return an authority's certificate (no issuer) or a server's, signed by the issuer."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer[1] if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(VALID_FROM)
        .not_valid_after(VALID_UNTIL)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(key_usage(signs_certificates=issuer is None), critical=True)
    )
    if issuer:
        hosts = [x509.DNSName(host) for host in NAMES]
        addresses = [x509.IPAddress(ip_address("127.0.0.1"))]
        builder = builder.add_extension(
            x509.SubjectAlternativeName([*hosts, *addresses]), critical=False
        )
    return builder.sign(signer, hashes.SHA256())


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the usage of a key that signs digitally, and perhaps certificates."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
