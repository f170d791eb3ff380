"""How jobs are told of PostgreSQL: no secret in the list of processes, TLS to strangers, sessions that only read."""

import argparse
import socket
from pathlib import Path

import pytest

from app.pipeline.spark import jdbc
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.jdbc import JdbcSource, check_reachable, check_url, jdbc_source

URL = "jdbc:postgresql://db.example.com:5433/klamm"


def _arguments(url: str | None = None, user: str | None = None, service: object = None) -> argparse.Namespace:
    return argparse.Namespace(jdbc_url=url, jdbc_user=user, service=service)


@pytest.fixture(autouse=True)
def _no_root_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jdbc, "_ROOT_AT_HOME", tmp_path / "root.crt")


def test_flags_stand_over_variables() -> None:
    environ = {"KLAMM_PIPELINE_JDBC_URL": f"{URL}2", "KLAMM_PIPELINE_JDBC_USER": "env"}
    assert jdbc_source(_arguments(), environ) == JdbcSource(f"{URL}2", "env")
    assert jdbc_source(_arguments(URL, "flag"), environ) == JdbcSource(URL, "flag")


def test_the_password_comes_from_a_variable_or_a_file_that_is_read_anew(tmp_path: Path) -> None:
    assert jdbc_source(_arguments(URL), {"KLAMM_PIPELINE_JDBC_PASSWORD": " a b "}).password == " a b "
    file = tmp_path / "password"
    environ = {"KLAMM_PIPELINE_JDBC_PASSWORD_FILE": str(file)}
    for written, meant in (("geheim\n", "geheim"), (" new \r\n", " new ")):
        file.write_text(written)
        assert jdbc_source(_arguments(URL), environ).password == meant
    file.unlink()
    with pytest.raises(PipelineError, match=r"KLAMM_PIPELINE_JDBC_PASSWORD_FILE: can't read `.*password`"):
        jdbc_source(_arguments(URL), environ)
    with pytest.raises(PipelineError, match="both set"):
        jdbc_source(_arguments(URL), {**environ, "KLAMM_PIPELINE_JDBC_PASSWORD": "x"})


def test_a_source_shows_no_secret() -> None:
    source = JdbcSource(f"{URL}?sslmode=require", "me", "geheim", {"sslpassword": "geheimer"})
    assert "geheim" not in f"{source!r}{source}"
    assert source.options()["password"] == "geheim"
    assert source.options()["sslpassword"] == "geheimer"


def test_a_url_that_can_not_be_meant_is_refused_without_a_word_of_it(subtests: pytest.Subtests) -> None:
    for url, said in [
        ("postgresql://u:geheim@h/d", "is a libpq URL"),
        ("jdbc:mysql://h/geheim", "expected jdbc:postgresql://host:port/database"),
        ("jdbc:postgresql://u:geheim@h/d", "holds a user or password"),
        (f"{URL}?password=geheim", "KLAMM_PIPELINE_JDBC_PASSWORD_FILE"),
        (f"{URL}?sslPassword=geheim", "holds a user or password"),
        (f"{URL}?user=geheim", "use --jdbc-user"),
        ("jdbc:postgresql://geheim", "expected jdbc"),
        ("jdbc:postgresql:///geheim", "expected jdbc"),
        ("jdbc:postgresql://h:geheim/d", "expected jdbc"),
        ("jdbc:postgresql://[geheim/d", "expected jdbc"),
    ]:
        with subtests.test(url=url, said=said):
            with pytest.raises(PipelineError) as refusal:
                check_url(url, "--jdbc-url")
            assert said in str(refusal.value)
            assert "geheim" not in str(refusal.value)
            assert str(refusal.value).startswith("--jdbc-url")


@pytest.mark.parametrize("url", [URL, f"{URL}?sslmode=disable", "jdbc:postgresql://[::1]:5432,b/d"])
def test_a_plain_url_is_taken(url: str) -> None:
    check_url(url, "--jdbc-url")


def test_sessions_read_only_and_show_who_they_are() -> None:
    options = JdbcSource(URL).options()
    assert options["options"] == "-c default_transaction_read_only=on"
    assert options["ApplicationName"] == "klamm-pipeline"
    assert "user" not in options
    assert "password" not in options


def test_strangers_must_show_a_certificate_for_their_name(subtests: pytest.Subtests) -> None:
    for url, mode, java_trusts in [
        ("jdbc:postgresql://localhost/d", None, False),
        ("jdbc:postgresql://127.0.0.1:5432/d", None, False),
        ("jdbc:postgresql://[::1]:5432/d", None, False),
        ("jdbc:postgresql://127.1/d", "verify-full", True),
        (URL, "verify-full", True),
        ("jdbc:postgresql://localhost,db.example.com/d", "verify-full", True),
        (f"{URL}?sslmode=disable", None, False),
        (f"{URL}?sslmode=verify-full", None, True),
        (f"{URL}?sslrootcert=/ca.pem", "verify-full", False),
        (f"{URL}?sslrootcert=system", "verify-full", True),
        (f"{URL}?sslfactory=x", "verify-full", False),
    ]:
        with subtests.test(url=url, mode=mode, java_trusts=java_trusts):
            options = JdbcSource(url).options()
            assert options.get("sslmode") == mode
            assert ("sslfactory" in options) == java_trusts


def test_authorities_in_their_usual_place_are_the_drivers_to_ask(tmp_path: Path) -> None:
    (tmp_path / "root.crt").write_text("")
    options = JdbcSource(URL).options()
    assert options["sslmode"] == "verify-full"
    assert "sslfactory" not in options


def test_without_a_url_the_service_is_asked_and_without_a_service_it_is_said() -> None:
    class Service:
        def source(self, arguments: argparse.Namespace) -> JdbcSource:
            assert arguments.jdbc_url is None
            return JdbcSource("jdbc:postgresql://service/d")

    assert jdbc_source(_arguments(service=Service()), {}).url == "jdbc:postgresql://service/d"
    with pytest.raises(PipelineError, match="no database is named; give --jdbc-url"):
        jdbc_source(_arguments(), {})


def test_a_database_that_nobody_serves_is_told_before_spark_starts_and_without_its_url() -> None:
    for host in ("127.0.0.1:1", "no-such-host.invalid:5432", "127.0.0.1:1,[::1]:1"):
        asked = argparse.Namespace(**vars(_arguments(f"jdbc:postgresql://{host}/klamm")))
        with pytest.raises(PipelineError, match=r"^PostgreSQL can't be reached: .*; check host and port") as fault:
            check_reachable(asked, {})
        assert fault.value.exit_code == 3
        assert "127.0.0.1" not in str(fault.value)


def test_one_host_that_answers_is_enough_and_a_socket_factory_finds_its_own_way() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for url in (f"127.0.0.1:1,127.0.0.1:{port}/klamm", "127.0.0.1:1/klamm?socketFactory=a.B"):
            check_reachable(argparse.Namespace(**vars(_arguments(f"jdbc:postgresql://{url}"))), {})
