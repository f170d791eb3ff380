"""Where a URL leads, in words for an operator; never its password."""

from pathlib import Path

import pytest

from app.store.place import place_of

SECRET = "planted-4711"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
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
        (f"postgresql://k:{SECRET}@/d?service=main", "database `service main/d`, user `k`"),
        (f"postgresql://k:{SECRET}@/d", "database `localhost:5432/d`, user `k`"),
    ],
)
def test_a_place_is_host_port_database_and_user(dsn: str, place: str) -> None:
    assert place_of(dsn) == place


@pytest.mark.parametrize(
    "dsn",
    [
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
    ],
)
def test_no_slip_of_the_pen_shows_a_password(dsn: str) -> None:
    assert SECRET not in place_of(dsn)


def test_an_at_sign_too_many_is_told_with_the_way_out() -> None:
    assert "%40" in place_of(f"postgresql://klamm:p@{SECRET}@db.example/acls")


def test_what_is_left_out_comes_from_postgresqls_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGPORT", "7")
    monkeypatch.setenv("PGUSER", "klamm")
    assert place_of("postgresql://") == "database `db.example:7/klamm`, user `klamm`"
    monkeypatch.setenv("PGDATABASE", "acls")
    assert place_of("postgresql://") == "database `db.example:7/acls`, user `klamm`"
    monkeypatch.setenv("PGSERVICE", "main")
    assert place_of("postgresql://other") == "database `other:7/acls`, user `klamm`"
    assert place_of("postgresql://") == "database `service main/acls`, user `klamm`"


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", nameless)
    number = Path("/proc/self").stat().st_uid
    assert place_of("postgresql://db.example/acls").endswith(f"user `{number}`")


def test_a_place_is_one_line() -> None:
    assert "\n" not in place_of("postgresql://k%0Aklamm@db.example/a%0Ab%1b")
    assert "\\x1b" in place_of("postgresql://k@db.example/a%1b")
