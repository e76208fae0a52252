"""Certificates for the tests of serve: an authority, and pairs for servers and users signed
by it.
"""

import ssl
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.serve import Files
from tests.apiserver.certificates import VALID_FROM, VALID_UNTIL, key_usage


class Authority:
    """Signs pairs and writes them below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-authority")])
        builder = _builder(self._name, self._name, self._key.public_key())
        # RFC 5280 requires this of an authority: Python 3.13 checks it for every chain by default.
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(key_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / "ca.crt"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def trust(self) -> ssl.SSLContext:
        """Return a client's context that trusts this authority alone."""
        return ssl.create_default_context(cafile=str(self.file))

    def serving(self, stem: str) -> Files:
        """Write a server's pair for loopback and return where it lies."""
        addresses: list[x509.GeneralName] = [x509.IPAddress(ip_address("127.0.0.1"))]
        names = [x509.NameAttribute(NameOID.COMMON_NAME, stem)]
        return self._write(stem, names, x509.SubjectAlternativeName(addresses))

    def user(self, name: str, *groups: str) -> Files:
        """Write a client's pair for a user and the groups it is in."""
        names = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return self._write(name, names, None)

    def _write(
        self,
        stem: str,
        names: list[x509.NameAttribute[str]],
        alternatives: x509.SubjectAlternativeName | None,
    ) -> Files:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(x509.Name(names), self._name, key.public_key()).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
            critical=False,
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        files = Files(str(self.folder / f"{stem}.crt"), str(self.folder / f"{stem}.key"))
        Path(files.certificate).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        Path(files.key).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(VALID_FROM)
        .not_valid_after(VALID_UNTIL)
    )
