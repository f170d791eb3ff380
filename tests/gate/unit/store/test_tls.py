"""Which hosts are on this machine, what a database URL asks for, and how faults of TLS are told."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from app.core.kafka.errors import StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.tls import answer_to_tls_fault, options_of, tls_of
from tests.certificates import Authority

REMOTE = "postgresql://klamm:planted@db.example.com/klamm"
VARIABLES = (
    *("PGHOST", "PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGSSLCRL"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home without ~/.postgresql, and none of PostgreSQL's variables."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_way_to_another_machine_is_verified_unless_the_url_says_otherwise(subtests: pytest.Subtests) -> None:
    for url, mode in [
        (REMOTE, "verify-full"),
        ("postgresql://10.1.2.3/x", "verify-full"),
        ("postgresql://localhost,db/x", "verify-full"),
        ("postgresql://127.0.0.2/x", "prefer"),
        ("postgresql:///x?host=/run/postgresql", "prefer"),
        ("postgresql://db/x?host=localhost", "verify-full"),
        (f"{REMOTE}?sslmode=disable", "disable"),
        (f"{REMOTE}?sslmode=prefer&sslmode=require", "require"),
        (f"{REMOTE}?sslmode=", "verify-full"),
        ("postgresql://localhost/x?sslmode=verify-full", "verify-full"),
    ]:
        with subtests.test(url=url, mode=mode):
            assert options_of(DatabaseUrl.parse(url)).mode == mode


async def test_what_the_driver_gets(home: Path) -> None:
    assert await tls_of(DatabaseUrl.parse("postgresql://localhost/x")) == "prefer"
    assert await tls_of(DatabaseUrl.parse(f"{REMOTE}?sslmode=allow")) == "allow"
    full = await tls_of(DatabaseUrl.parse(f"{REMOTE}?ssl_max_protocol_version=TLSv1.3"))
    assert isinstance(full, ssl.SSLContext)
    assert (full.verify_mode, full.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert full.minimum_version == ssl.TLSVersion.TLSv1_2
    assert full.maximum_version == ssl.TLSVersion.TLSv1_3
    encrypted = await tls_of(DatabaseUrl.parse(f"{REMOTE}?sslmode=require&ssl_min_protocol_version=TLSv1.3"))
    assert isinstance(encrypted, ssl.SSLContext)
    assert (encrypted.verify_mode, encrypted.check_hostname) == (ssl.CERT_NONE, False)
    assert encrypted.minimum_version == ssl.TLSVersion.TLSv1_3
    authority = Authority(home / "ca").file
    for mode, checks_name in (("require", False), ("verify-ca", False), ("verify-full", True)):
        context = await tls_of(DatabaseUrl.parse(f"{REMOTE}?sslmode={mode}&sslrootcert={authority}"))
        assert isinstance(context, ssl.SSLContext)
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, checks_name)
        assert context.cert_store_stats()["x509"] == 1


async def test_the_systems_authorities_are_trusted_unless_others_are_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(home / "system").file))
    for url in (REMOTE, f"{REMOTE}?sslrootcert=system"):
        context = await tls_of(DatabaseUrl.parse(url))
        assert isinstance(context, ssl.SSLContext)
        assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "authority"),),)]


async def test_files_at_home_and_in_variables_are_found_as_libpq_finds_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(home / ".postgresql", "root")
    (home / ".postgresql" / "root.pem").rename(home / ".postgresql" / "root.crt")
    authority.certify("postgresql")
    options = options_of(DatabaseUrl.parse(REMOTE))
    assert options.root_certificate == str(home / ".postgresql" / "root.crt")
    assert options.certificate == str(home / ".postgresql" / "postgresql.crt")
    assert options.key == str(home / ".postgresql" / "postgresql.key")
    assert isinstance(await tls_of(DatabaseUrl.parse(REMOTE)), ssl.SSLContext)
    monkeypatch.setenv("PGSSLROOTCERT", "elsewhere")
    assert options_of(DatabaseUrl.parse(REMOTE)).root_certificate == "elsewhere"
    assert options_of(DatabaseUrl.parse(f"{REMOTE}?sslrootcert=named")).root_certificate == "named"
    monkeypatch.setenv("PGSSLMODE", "require")
    assert options_of(DatabaseUrl.parse(REMOTE)).mode == "require"


async def test_a_variable_that_wants_an_authority_needs_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-ca")
    with pytest.raises(StoreUnavailableException, match="name its file, sslrootcert=FILE"):
        await tls_of(DatabaseUrl.parse(REMOTE))


async def test_a_context_is_kept_until_one_of_its_files_changes(tmp_path: Path) -> None:
    url = f"{REMOTE}?sslrootcert={Authority(tmp_path / 'ca').file}"
    first = await tls_of(DatabaseUrl.parse(url))
    assert await tls_of(DatabaseUrl.parse(url)) is first
    Authority(tmp_path / "new")
    (tmp_path / "new" / "authority.pem").replace(tmp_path / "ca" / "authority.pem")
    assert await tls_of(DatabaseUrl.parse(url)) is not first


async def test_an_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    certified = Authority(tmp_path).certify("client", password=b"planted")
    url = f"{REMOTE}?sslcert={certified.certificate}&sslkey={certified.key}"
    assert isinstance(await tls_of(DatabaseUrl.parse(f"{url}&sslpassword=planted")), ssl.SSLContext)
    with pytest.raises(StoreUnavailableException, match="sslcert or sslkey"):
        await tls_of(DatabaseUrl.parse(url))
    assert "planted" not in repr(options_of(DatabaseUrl.parse(f"{url}&sslpassword=planted")))


async def test_a_revocation_list_is_looked_into(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    today = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateRevocationListBuilder(authority._name, today, today + timedelta(days=9_000))
    revoked = builder.sign(authority._key, hashes.SHA256()).public_bytes(Encoding.PEM)
    (tmp_path / "crl.pem").write_bytes(revoked)

    context = await tls_of(DatabaseUrl.parse(f"{REMOTE}?sslrootcert={authority.file}&sslcrl={tmp_path / 'crl.pem'}"))

    assert isinstance(context, ssl.SSLContext)
    assert context.verify_flags & ssl.VERIFY_CRL_CHECK_CHAIN
    assert context.cert_store_stats()["crl"] == 1


async def test_what_can_not_be_used_is_named_in_one_line_without_the_url(subtests: pytest.Subtests) -> None:
    for options, told in [
        ({"sslrootcert": "/nowhere/planted.pem"}, "the file that sslrootcert .* can't be used .no such file"),
        ({"sslcert": "/nowhere/planted.pem"}, "the file that sslcert .* can't be used .no such file"),
        ({"sslcrl": "/nowhere/planted.pem"}, "the file that sslcrl .* can't be used .no such file"),
        ({"sslrootcert": __file__}, r"the file that sslrootcert .* can't be used \(no certificate or crl found\)"),
        ({"sslcrl": __file__}, "the file that sslcrl .* can't be used"),
        ({"sslcert": __file__}, "the file that sslcert or sslkey .* can't be used"),
        ({"sslrootcert": "/"}, "the file that sslrootcert .* can't be used"),
    ]:
        with subtests.test(options=options, told=told):
            url = f"{REMOTE}?{'&'.join(f'{name}={value}' for name, value in options.items())}"

            with pytest.raises(StoreUnavailableException, match=told) as refused:
                await tls_of(DatabaseUrl.parse(url))

            assert "planted" not in refused.value.message
            assert "\n" not in refused.value.message


def test_only_faults_of_tls_are_told_as_such() -> None:
    assert answer_to_tls_fault(ConnectionResetError("x")) is None
    assert answer_to_tls_fault(TimeoutError()) is None
    assert "does not offer TLS" in str(
        answer_to_tls_fault(ConnectionError('PostgreSQL server at "planted:5432" rejected SSL upgrade'))
    )
    lost = asyncpg.ConnectionDoesNotExistError("planted")
    assert answer_to_tls_fault(lost) is None
    lost.__cause__ = ssl.SSLError("planted")
    assert "(no reason given)" in str(answer_to_tls_fault(lost))
    assert "(no reason given)" in str(answer_to_tls_fault(ssl.SSLError("planted")))
