"""Where a hub is, and what is not done for the sake of secrets: passwords in URLs, sessions in the clear over a network."""

from __future__ import annotations

import random
import ssl

import pytest

from sessiond.errors import ConfigError
from sessiond.hub.address import HubAddress, arguments, check_url, hosts, is_here, redacted
from sessiond.shared_config import has_password

HERE = [
    "postgresql:///db", "postgresql://ada@/db?host=/run/postgresql", "postgresql://ada@127.0.0.1:5432/db", "postgres://[::1]/db",
    "postgresql://localhost/db", "postgresql://ada@127.9.8.7/db", "postgresql://localhost,127.0.0.1/db",
]  # fmt: skip
AWAY = [
    "postgresql://ada@db.example/db", "postgresql://10.0.0.3/db", "postgresql://localhost,db.example/db",
    "postgresql:///db?host=db.example", "postgresql://[fe80::1]/db", "postgresql://localhost.example/db",
]  # fmt: skip


@pytest.mark.parametrize("url", HERE)
def test_on_this_machine_tls_is_a_choice(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback and sockets: `prefer` is the default, and every mode is allowed."""
    monkeypatch.delenv("PGHOST", raising=False)
    assert is_here(hosts(url))
    assert arguments(HubAddress("team", url=url))["ssl"] == "prefer"
    joint = "&" if "?" in url else "?"
    for mode in ("disable", "allow", "prefer", "require", "verify-full"):
        check_url(f"{url}{joint}sslmode={mode}")


@pytest.mark.parametrize("url", AWAY)
def test_elsewhere_tls_is_required(url: str) -> None:
    """`verify-full` is the default: certificate and host name are checked. Modes that may go without TLS are refused."""
    assert not is_here(hosts(url))
    context = arguments(HubAddress("team", url=url))["ssl"]
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname and context.verify_mode is ssl.CERT_REQUIRED
    joint = "&" if "?" in url else "?"
    for mode in ("disable", "allow", "prefer"):
        with pytest.raises(ConfigError, match="in the clear"):
            arguments(HubAddress("team", url=f"{url}{joint}sslmode={mode}"))
    for mode, checked in (("verify-ca", ssl.CERT_REQUIRED), ("require", ssl.CERT_NONE)):
        context = arguments(HubAddress("team", url=f"{url}{joint}sslmode={mode}"))["ssl"]
        assert (context.check_hostname, context.verify_mode) == (False, checked)


def test_the_environment_cannot_lead_elsewhere_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL without a host goes where PGHOST says, and then that host counts."""
    monkeypatch.setenv("PGHOST", "db.example")
    assert isinstance(arguments(HubAddress("team", url="postgresql:///db"))["ssl"], ssl.SSLContext)


def test_a_service_is_held_to_the_same(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host, database and sslmode come from libpq's file, its password too; TLS is required as for a URL."""
    file = tmp_path / "services"
    file.write_text(
        "[team]\nhost=db.example\nport=6000\ndbname=d b\nuser=ada\npassword=secret\n[bad]\nhost=db.example\nsslmode=disable\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    found = arguments(HubAddress("team", service="team"))
    assert found["dsn"] == "postgresql:///d%20b?host=db.example&port=6000&user=ada"
    assert found["password"] == "secret"
    assert isinstance(found["ssl"], ssl.SSLContext)
    with pytest.raises(ConfigError, match="in the clear"):
        arguments(HubAddress("team", service="bad"))
    with pytest.raises(ConfigError, match="is not in"):
        arguments(HubAddress("team", service="none"))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="does not exist"):
        arguments(HubAddress("team", service="team"))


@pytest.mark.parametrize(
    "url",
    ["mysql://x/y", "db.example", "postgresql://x:y/db", "postgresql://h/db?sslmode=maybe", "postgresql://[::1/db", ""],
)
def test_a_url_that_cannot_be_used_is_refused(url: str) -> None:
    """With a reason."""
    with pytest.raises(ConfigError):
        check_url(url)


@pytest.mark.parametrize("seed", range(200))
def test_no_password_is_shown(seed: int) -> None:
    """Wherever it is in a URL, the URL is refused, and what is shown of it lacks the password and keeps the host."""
    chance = random.Random(seed)
    secret = "".join(chance.choice("abcxyz!$%2F.-~") for _ in range(12)).replace("%", "%25")
    host = chance.choice(["db.example", "127.0.0.1", "[::1]", "a,b"])
    port = chance.choice(["", ":5432"]) if host != "a,b" else ""
    user = chance.choice(["ada", "a%40b", ""])
    url = chance.choice(
        [
            f"postgresql://{user}:{secret}@{host}{port}/db",
            f"postgresql://{host}{port}/db?user=x&password={secret}",
            f"postgresql://{user}:{secret}@{host}{port}/db?sslmode=require&password={secret}x",
        ]
    )
    assert has_password(url)
    with pytest.raises(ConfigError) as caught:
        check_url(url)
    for text in (str(caught.value), redacted(url), HubAddress("team", url=url).shown()):
        assert secret not in text
    assert host in redacted(url)
    assert not has_password(redacted(url))
