"""A hub with TLS: its certificate and its name are checked."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sessiond.errors import SessiondError, Unavailable
from sessiond.hub.address import HubAddress
from sessiond.hub.postgres import PostgresHub
from tests.hub.postgres import Server
from tests.hub.stores import Team


def certificate(folder: Path, name: str, hosts: list[x509.GeneralName]) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    crt, pem = folder / f"{name}.crt", folder / f"{name}.key"
    crt.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return crt, pem


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that has a certificate for `localhost`, and lets nobody in by TCP without TLS."""
    made = Server("debian")  # the wheel is built without TLS
    crt, pem = certificate(made.folder, "hub", [x509.DNSName("localhost")])
    pem.chmod(0o600)
    if made.user is not None:
        subprocess.run(["chown", made.user, str(pem), str(crt)], check=True)
    with (made.data / "postgresql.conf").open("a") as file:
        file.write(f"ssl = on\nssl_cert_file = '{crt}'\nssl_key_file = '{pem}'\nlisten_addresses = 'localhost'\n")
    (made.data / "pg_hba.conf").write_text("local all all trust\nhostssl all all all trust\n")
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that has nothing to do with the server."""
    addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return certificate(tmp_path_factory.mktemp("strangers"), "stranger", addresses)[0]


async def visit(server: Server, host: str, rest: str) -> str:
    hub = PostgresHub(HubAddress("team", url=f"postgresql://ada@{host}:{server.port}/tls?{rest}"), None)
    try:
        return (await hub.welcome()).member
    finally:
        await hub.close()


async def test_certificate_and_name_are_checked(guarded: Server, strangers: Path) -> None:
    """verify-full: the right certificate for the right name. verify-ca: for any name. require: any certificate. prefer takes TLS
    where the server has it, disable does not get in.
    """
    team = await Team.make(guarded, "tls")
    right = f"sslrootcert={guarded.folder}/hub.crt"
    assert await visit(guarded, "localhost", f"sslmode=verify-full&{right}") == "Ada"
    assert await visit(guarded, "127.0.0.1", f"sslmode=verify-ca&{right}") == "Ada"
    assert await visit(guarded, "127.0.0.1", "sslmode=require") == "Ada"
    assert await visit(guarded, "127.0.0.1", "sslmode=prefer") == "Ada"
    for host, rest in (
        ("127.0.0.1", f"sslmode=verify-full&{right}"),
        ("localhost", f"sslmode=verify-full&sslrootcert={strangers}"),
        ("localhost", f"sslmode=verify-ca&sslrootcert={strangers}"),
        ("localhost", "sslmode=verify-full&sslrootcert=system"),
    ):
        with pytest.raises(Unavailable, match="no TLS"):
            await visit(guarded, host, rest)
    with pytest.raises(SessiondError, match="refuses"):
        await visit(guarded, "localhost", "sslmode=disable")
    await team.close()
