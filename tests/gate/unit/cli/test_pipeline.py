"""`klamm pipeline`: whose database is read."""

import socket
from pathlib import Path

import pytest

from app.cli.entry_point import main
from app.cli.pipeline import embedded_source, source_of
from app.formats.database_url import DatabaseUrl
from app.pipeline.spark.errors import PipelineError


def test_the_services_url_is_said_in_javas_words(subtests: pytest.Subtests) -> None:
    for dsn, url, user, password in [
        ("postgresql://u:p%40s@h:6432/d", "jdbc:postgresql://h:6432/d", "u", "p@s"),
        ("postgres://u@h/my%20db", "jdbc:postgresql://h:5432/my%20db", "u", None),
        ("postgresql://u:p@[::1]:5432,b:5433/d", "jdbc:postgresql://[::1]:5432,b:5433/d", "u", "p"),
        ("postgresql:///d?host=h&port=1&user=u&password=p", "jdbc:postgresql://h:1/d", "u", "p"),
        ("postgresql://h?dbname=d", "jdbc:postgresql://h:5432/d", None, None),
        ("postgresql://u@h", "jdbc:postgresql://h:5432/u", "u", None),
    ]:
        with subtests.test(dsn=dsn, url=url, user=user, password=password):
            source = source_of(DatabaseUrl.parse(dsn, {}))
            assert (source.url, source.user, source.password) == (url, user, password)


def test_options_that_java_has_are_taken_over_and_the_services_own_left_out() -> None:
    source = source_of(
        DatabaseUrl.parse(
            "postgresql://h/d?sslmode=require&sslpassword=s&search_path=k&work_mem=1MB", {"PGSSLROOTCERT": "/c"}
        )
    )
    assert source.properties == {"sslmode": "require", "sslpassword": "s", "currentSchema": "k", "sslrootcert": "/c"}
    assert source.options()["sslmode"] == "require"
    assert source_of(DatabaseUrl.parse("postgresql://db.example.com/d", {})).options()["sslmode"] == "verify-full"
    assert "sslmode" not in source_of(DatabaseUrl.parse("postgresql://localhost/d", {})).options()


def test_postgresqls_variables_count_where_the_url_is_silent() -> None:
    environ = {"PGHOST": "h", "PGPORT": "7", "PGUSER": "u", "PGPASSWORD": "p", "PGDATABASE": "d"}
    source = source_of(DatabaseUrl.parse("postgresql://", environ))
    assert (source.url, source.user, source.password) == ("jdbc:postgresql://h:7/d", "u", "p")


def test_what_java_has_no_way_to_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"--jdbc-url") as refusal:
        source_of(DatabaseUrl.parse("postgresql://u:geheim@/d?host=/tmp", {}))
    assert "geheim" not in str(refusal.value)


def test_the_embedded_postgresql_is_found_while_it_runs(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"no `klamm serve` is running on `.*`; start it"):
        embedded_source(tmp_path / "none")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (tmp_path / "port").write_text(f"{port}\n")
        (tmp_path / "password").write_text("geheim\n")
        source = embedded_source(tmp_path)
    assert (source.url, source.user, source.password) == (
        f"jdbc:postgresql://127.0.0.1:{port}/klamm",
        "klamm",
        "geheim",
    )
    with pytest.raises(PipelineError, match="no `klamm serve` is running"):
        embedded_source(tmp_path)


def test_the_services_own_settings_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KLAMM_PIPELINE_HOME", str(tmp_path))
    assert main(["pipeline", "export", "--data-dir", "here"]) == 2
    assert "klamm serve --data-dir here" in capsys.readouterr().err
    monkeypatch.setenv("KLAMM_DATABASE_URL", "nonsense")
    assert main(["pipeline", "export"]) == 2
    assert "KLAMM_DATABASE_URL: expected postgresql://" in capsys.readouterr().err
