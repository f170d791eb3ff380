"""Where a URL leads, and what may be said of it; never its password."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from app.formats.database_url import DatabaseUrl

SECRET = "planted-4711"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGSSLMODE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)


def test_a_place_is_host_port_database_and_user(subtests: pytest.Subtests) -> None:
    for dsn, place in [
        (f"postgresql://klamm:{SECRET}@db.example:5433/acls", "database `db.example:5433/acls`, user `klamm`"),
        (f"postgres://klamm:{SECRET}@db.example/acls", "database `db.example:5432/acls`, user `klamm`"),
        ("postgresql://klamm@db.example", "database `db.example:5432/klamm`, user `klamm`"),
        (f"postgresql://k%40azure:{SECRET}@[::1]:1/a%20b", "database `[::1]:1/a...`, user `k@azure`"),
        (f"postgresql://k:{SECRET}@one,two:5/d", "database `one:5432,two:5/d`, user `k`"),
        (f"postgresql:///d?host=/run/pg&user=k&password={SECRET}", "database `/run/pg:5432/d`, user `k`"),
        (
            f"postgresql://?host=a,b&port=1,2&dbname=d&user=k&password={SECRET}",
            "database `a:1,b:2/d`, user `k`",
        ),
        (f"postgresql://?host=a,b&port=7&database=d&user=k&password={SECRET}", "database `a:7,b:7/d`, user `k`"),
        (f"postgresql://k:{SECRET}@/d", "database `localhost:5432/d`, user `k`"),
    ]:
        with subtests.test(dsn=dsn, place=place):
            assert DatabaseUrl.parse(dsn).shown == place


def test_no_slip_of_the_pen_shows_a_password(subtests: pytest.Subtests) -> None:
    for dsn in [
        f"postgresql://klamm:p@{SECRET}@db.example/acls",
        f"postgresql://klamm:1/{SECRET}@db.example/acls",
        f"postgresql://klamm:1?{SECRET}@db.example/acls",
        f"postgresql://klamm:1#{SECRET}@db.example/acls",
        f"postgresql://klamm%3A{SECRET}@db.example/acls",
        f"postgresql://klamm@db.example/acls%3Fpassword%3D{SECRET}",
        f"postgresql://klamm@db.example/acls&password={SECRET}",
        f"postgresql://klamm@db.example%3F{SECRET}/acls",
        f"postgresql:///acls?host=db.example;password={SECRET}",
        f"postgresql:///acls?user=klamm%26password%3D{SECRET}",
        f"postgresql://klamm@[{SECRET}]:1/acls",
        f"postgresql://[{SECRET}@db.example/acls",
        f"postgresql://klamm:\u2100{SECRET}@db.example/acls",
        f"postgresql://db.example:5432/acls?password=x@{SECRET}",
        f"postgresql://db.example/acls?password=x&{SECRET.replace('-4711', '')}=",
        f"postgresql://db.example/acls?{SECRET}=",
    ]:
        with subtests.test(dsn=dsn):
            try:
                told = DatabaseUrl.parse(dsn).shown
            except ValueError as refusal:
                told = str(refusal)
            assert SECRET not in told


def test_an_at_sign_too_many_is_told_with_the_way_out() -> None:
    with pytest.raises(ValueError, match="%40"):
        DatabaseUrl.parse(f"postgresql://klamm:p@{SECRET}@db.example/acls")
    with pytest.raises(ValueError, match="%40"):
        DatabaseUrl.parse(f"postgresql://klamm:1/{SECRET}@db.example/acls")


def test_as_text_a_url_is_masked() -> None:
    url = DatabaseUrl.parse(f"postgresql://klamm:{SECRET}@db/acls")
    assert f"{url} {url!r}" == "********** **********"
    assert url.password == SECRET


def test_what_is_left_out_comes_from_postgresqls_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGPORT", "7")
    monkeypatch.setenv("PGUSER", "klamm")
    assert DatabaseUrl.parse("postgresql://").shown == "database `db.example:7/klamm`, user `klamm`"
    monkeypatch.setenv("PGDATABASE", "acls")
    assert DatabaseUrl.parse("postgresql://").shown == "database `db.example:7/acls`, user `klamm`"
    assert DatabaseUrl.parse("postgresql://other").shown == "database `other:7/acls`, user `klamm`"


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", nameless)
    number = Path("/proc/self").stat().st_uid
    assert DatabaseUrl.parse("postgresql://db.example/acls").shown.endswith(f"user `{number}`")


def test_a_place_is_one_line() -> None:
    assert "\n" not in DatabaseUrl.parse("postgresql://k%0Aklamm@db.example/a%0Ab%1b").shown
    assert "\\x1b" in DatabaseUrl.parse("postgresql://k@db.example/a%1b").shown


def _to(host: str) -> DatabaseUrl:
    return DatabaseUrl.parse(f"postgresql:///x?host={quote(f'[{host}]' if ':' in host else host)}")


def test_a_host_of_this_machine(subtests: pytest.Subtests) -> None:
    for host in [
        *("localhost", "127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "::ffff:127.0.0.1"),
        *("/run/postgresql", "/tmp/s", ""),  # noqa: S108 - nothing is made there
    ]:
        with subtests.test(host=host):
            assert _to(host).is_local


def test_any_other_host_is_a_stranger(subtests: pytest.Subtests) -> None:
    for host in [
        *("db", "db.example.com", "localhost.example.com", "10.0.0.1", "128.0.0.1", "0.0.0.0", "::", "fe80::1"),  # noqa: S104 - nobody listens
        *("::ffff:10.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "127.0.0.1.example.com", "LOCALHOST."),
        *("ss@localhost", "localhost ", "@abstract"),
    ]:
        with subtests.test(host=host):
            assert not _to(host).is_local


def test_hosts_are_those_that_the_driver_tries(subtests: pytest.Subtests) -> None:
    for dsn, hosts in [
        ("postgresql://a:b@db:5432/x", ["db"]),
        ("postgres://db", ["db"]),
        ("postgresql://a@[::1]:5432/x", ["::1"]),
        ("postgresql://a@h1:1,h2:2,[fe80::1]/x", ["h1", "h2", "fe80::1"]),
        ("postgresql://a@%2Frun%2Fpostgresql/x", ["/run/postgresql"]),
        ("postgresql:///x", [""]),
        ("postgresql:///x?host=/run/postgresql", ["/run/postgresql"]),
        ("postgresql:///x?host=h1:1,h2", ["h1", "h2"]),
        ("postgresql://db/x?host=localhost", ["db"]),
    ]:
        with subtests.test(dsn=dsn, hosts=hosts):
            assert [name for name, _ in DatabaseUrl.parse(dsn).hosts] == hosts


def test_hosts_may_come_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "h1,/run/postgresql")
    assert DatabaseUrl.parse("postgresql:///x").hosts == [("h1", "5432"), ("/run/postgresql", "5432")]
    assert not DatabaseUrl.parse("postgresql:///x").is_local
    assert DatabaseUrl.parse("postgresql://localhost/x").is_local


def test_tls_options_may_come_from_variables() -> None:
    environ = {"PGSSLMODE": "require", "PGSSLROOTCERT": "ca.pem"}
    assert DatabaseUrl.parse("postgresql:///x", environ).options == {"sslmode": "require", "sslrootcert": "ca.pem"}
    assert DatabaseUrl.parse("postgresql:///x?sslmode=allow", environ).options["sslmode"] == "allow"
    with pytest.raises(
        ValueError, match="the variable PGSSLMODE applies to it, and its sslmode must be one of disable"
    ):
        DatabaseUrl.parse("postgresql:///x", {"PGSSLMODE": "planted"})


def test_tls_options_that_can_not_be_meant_are_refused(subtests: pytest.Subtests) -> None:
    for query, told in [
        ("sslmode=always", "its sslmode must be one of disable, "),
        ("sslmode=verify-ca", "needs sslrootcert"),
        ("sslmode=verify-ca&sslrootcert=system", "needs sslmode=verify-full"),
        ("sslmode=require&sslrootcert=system", "needs sslmode=verify-full"),
        ("ssl_min_protocol_version=TLSv1", "must be one of TLSv1.2, TLSv1.3"),
        ("ssl_max_protocol_version=SSLv3", "must be one of TLSv1.2, TLSv1.3"),
    ]:
        with subtests.test(query=query, told=told), pytest.raises(ValueError, match=told):
            DatabaseUrl.parse(f"postgresql://klamm:{SECRET}@db/x?{query}")


@pytest.mark.parametrize("dsn", ["postgresql:///x", "postgresql://u@[::1]:7/x", "postgresql://a,b:1/x%20y"])
def test_the_form_for_java_reads_back_as_the_same(dsn: str) -> None:
    url = DatabaseUrl.parse(dsn)
    again = DatabaseUrl.parse_jdbc(url.jdbc)
    assert again.hosts == [(name or "localhost", port) for name, port in url.hosts]
    assert (again.database, again.user) == (url.database, "")


@pytest.mark.parametrize("value", ["", SECRET])
def test_an_unknown_option_is_refused_with_its_name_and_the_way_out(subtests: pytest.Subtests, value: str) -> None:
    for option, told in [
        ("sslmod", "unknown option `sslmod`; did you mean `sslmode`?"),
        ("SSLMODE", "unknown option `SSLMODE`; did you mean `sslmode`?"),
        ("connect_timeout", "unknown option `connect_timeout`; leave it out, or "),
        ("log_statement", "as options=-c%20NAME%3DVALUE"),
        ("service", "unknown option `service`; leave it out"),
        ("pa55", "unknown option; leave it out"),
    ]:
        with subtests.test(option=option, told=told):
            with pytest.raises(ValueError, match=re.escape(told)) as refusal:
                DatabaseUrl.parse(f"postgresql://klamm:{SECRET}@db/x?sslmode=require&{option}={value}")
            assert SECRET not in str(refusal.value)


@pytest.mark.parametrize("odd", ["local\nhost", "local\thost"])
def test_a_line_s_end_hides_no_other_host(odd: str) -> None:
    with pytest.raises(ValueError, match="expected postgresql"):
        DatabaseUrl.parse(f"postgresql://{odd}/x")
