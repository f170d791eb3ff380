from collections.abc import Iterable
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.core.kafka.configs import AuthorizerConfig
from app.formats.command_errors import UsageError
from app.formats.database_url import DatabaseUrl
from app.settings.model import Settings, as_given, read_settings
from app.settings.sources import TABLES
from tests.surroundings import leave
from tests.vectors.loader import Line, lines

DSN = "postgresql://klamm:planted-secret@db:5432/klamm"


@pytest.fixture(autouse=True)
def clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of ours, and a working folder without klamm.toml."""
    leave(monkeypatch, tmp_path)


def _refusal(flags: dict[str, object] | None = None) -> str:
    with pytest.raises(UsageError) as refused:
        read_settings(flags)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def _toml(text: str) -> None:
    Path("klamm.toml").write_text(text)


def test_a_file_that_others_can_change_is_refused() -> None:
    _toml('super.users = "User:mallory"')
    Path("klamm.toml").chmod(0o666)
    assert _refusal() == ("other users can change `klamm.toml` (mode 0666); take that permission away: chmod go-w")
    Path("klamm.toml").chmod(0o644)
    assert read_settings().super_users == {"User:mallory"}


def _vectors(kind: str) -> list[Line]:
    return [line for line in lines("validation") if line["kind"] == kind]


def test_without_anything_the_defaults_are_safe() -> None:
    settings = read_settings()
    assert settings.database_url is None
    assert settings.data_dir == Path(".klamm")
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert settings.authorizer_enabled
    assert settings.authorizer_config == AuthorizerConfig()


def test_a_flag_stands_over_a_variable_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    _toml('host = "file"\nport = 1\nlog.level = "ERROR"')
    monkeypatch.setenv("KLAMM_HOST", "variable")
    monkeypatch.setenv("KLAMM_PORT", "2")
    settings = read_settings({"port": "3", "uds": None})
    assert (settings.log_level, settings.host, settings.port) == ("ERROR", "variable", 3)


def test_dotted_keys_and_tables_of_the_file_are_properties() -> None:
    dotted = 'super.users = "User:a; User:b"\n"feed.poll.ms" = 50'
    _toml(f'{dotted}\n[database]\nurl = "{DSN}"\n[allow.everyone.if.no]\nacl.found = true')
    settings = read_settings()
    assert settings.super_users == {"User:a", "User:b"}
    assert settings.feed_poll_ms == 50
    assert settings.database_url == DatabaseUrl.parse(DSN)
    assert settings.allow_everyone_if_no_acl_found


def test_where_callers_are_configured_the_console_has_to_be_switched_on() -> None:
    assert read_settings().has_console
    callers = 'tokens.file = "tokens"\n[callers.root]\nrole = "admin"\nprincipal = "User:admin"'
    _toml(callers)
    assert not read_settings().has_console
    _toml(f"console.enabled = true\n{callers}")
    assert read_settings().has_console


def test_settings_can_not_be_changed() -> None:
    with pytest.raises(ValidationError):
        read_settings().port = 1  # type: ignore[misc]  # that is the point


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("KLAMM_SUPERUSERS", "KLAMM_SUPER_USERS"),
        ("KLAMM_DATABASE_URI", "KLAMM_DATABASE_URL"),
        ("klamm_port", "KLAMM_PORT"),
        ("KLAMM_XPORT", "KLAMM_PORT"),
    ],
)
def test_an_unknown_variable_refuses_the_start(name: str, nearest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert _refusal() == f"{name}: there is no such variable; did you mean {nearest}?"


def test_an_unknown_key_of_the_file_refuses_the_start() -> None:
    _toml('[super]\nuser = "User:a"')
    assert _refusal() == "`klamm.toml`: there is no property `super.user`; did you mean super.users?"


def test_a_file_that_is_not_toml_refuses_the_start() -> None:
    _toml("port =")
    assert _refusal().startswith("`klamm.toml` is not TOML: ")


def test_a_file_that_can_not_be_read_refuses_the_start() -> None:
    Path("klamm.toml").write_bytes(b"\xff")
    assert _refusal() == "`klamm.toml` is not UTF-8 text; save it as UTF-8"
    Path("klamm.toml").unlink()
    Path("klamm.toml").mkdir()
    assert _refusal() == "`klamm.toml` can't be read (Is a directory); let this user read it, or move it away"


def test_the_variables_that_kubernetes_makes_of_a_service_are_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "KLAMM_SERVICE_HOST": "10.0.0.1",
        "KLAMM_SERVICE_PORT_HTTP": "8080",
        "KLAMM_PORT": "tcp://10.0.0.1:8080",
        "KLAMM_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "KLAMM_PORT_8080_TCP_ADDR": "10.0.0.1",
        "KLAMM_METRICS_SERVICE_HOST": "10.0.0.2",
        "KLAMM_METRICS_PORT": "tcp://10.0.0.2:9090",
    }.items():
        monkeypatch.setenv(name, value)
    assert read_settings().port == 8080


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("KLAMM_PORT", "http", "expected a whole number"),
        ("KLAMM_PORT", "65536", "less than or equal to 65535"),
        ("KLAMM_PORT", "", "is empty; leave it out for the default"),
        ("KLAMM_DATA_DIR", "", "is empty"),
        ("KLAMM_DATABASE_URL", "", "is empty"),
        ("KLAMM_REQUEST_TIMEOUT_MS", "0", "greater than or equal to 1"),
        ("KLAMM_LOG_LEVEL", "LOUD", "it should be 'DEBUG', 'INFO', 'WARN' or 'ERROR'"),
        ("KLAMM_AUTHORIZER_ENABLED", "1", "expected true or false"),
        ("KLAMM_MAX_STALENESS_MS", "0", "Invalid value 0 for configuration max.staleness.ms: Value must be at least 1"),
        ("KLAMM_AUDIT_LEVEL", "LOUD", "Invalid value LOUD for configuration audit.level"),
        ("KLAMM_DECISION_LOG_PATH", "", "is empty"),
        ("KLAMM_DECISION_LOG_SAMPLE", "0", "it should be greater than 0"),
        ("KLAMM_DECISION_LOG_SAMPLE", "1.01", "it should be less than or equal to 1"),
        ("KLAMM_DECISION_LOG_SAMPLE", "nan", "it should be greater than 0"),
        ("KLAMM_DECISION_LOG_SAMPLE", "all", "expected a number"),
        ("KLAMM_DECISION_LOG_ROTATE_BYTES", "1023", "greater than or equal to 1024"),
        ("KLAMM_DECISION_LOG_ROTATE_MS", "99", "greater than or equal to 100"),
        ("KLAMM_DECISION_LOG_RETENTION_BYTES", "4095", "greater than or equal to 4096"),
        ("KLAMM_DECISION_LOG_BUFFER_BYTES", "64k", "expected a whole number"),
    ],
)
def test_a_bad_value_names_its_variable(variable: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    assert _refusal().startswith(f"{variable}: ")
    assert why in _refusal()


def test_a_bad_flag_and_a_bad_key_are_named() -> None:
    assert _refusal({"data_dir": ""}).startswith("--data-dir: ")
    _toml("super.users = ['User:a']")
    assert _refusal() == "`klamm.toml`: super.users: expected text"


@pytest.mark.parametrize("value", ["true", "TRUE", " True "])
def test_the_authorizer_can_be_switched_by_either_word(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_AUTHORIZER_ENABLED", value)
    assert read_settings().authorizer_enabled
    _toml("authorizer.enabled = false")
    monkeypatch.delenv("KLAMM_AUTHORIZER_ENABLED")
    assert not read_settings().authorizer_enabled


@pytest.mark.parametrize("line", _vectors("super.users"), ids=lambda line: line["case"])
def test_super_users_are_read_as_kafka_reads_them(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_SUPER_USERS", line["case"])
    if "exception_message" in line:
        assert _refusal() == f"KLAMM_SUPER_USERS: {line['exception_message']}"
    else:
        assert f"[{', '.join(sorted(read_settings().super_users))}]" == line["super_users"]


@pytest.mark.parametrize("line", _vectors("allow.everyone.if.no.acl.found"), ids=lambda line: line["case"])
def test_only_true_in_any_case_allows_everyone(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_ALLOW_EVERYONE_IF_NO_ACL_FOUND", line["case"])
    assert read_settings().allow_everyone_if_no_acl_found == (line["default_result"] == "ALLOWED")


def test_the_start_up_configuration_is_all_five_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SUPER_USERS": "User:a",
        "ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true",
        "EARLY_START_LISTENERS": "CONTROLLER, INTERNAL",
        "MAX_STALENESS_MS": "60000",
        "AUDIT_LEVEL": "debug",
    }.items():
        monkeypatch.setenv(f"KLAMM_{name}", value)
    assert read_settings().authorizer_config == AuthorizerConfig(
        super_users=frozenset({"User:a"}),
        allow_everyone_if_no_acl_found=True,
        early_start_listeners=frozenset({"CONTROLLER", "INTERNAL"}),
        max_staleness_ms=60_000,
        audit_level="DEBUG",
    )


@pytest.mark.parametrize(
    "url",
    [
        "mysql://klamm:planted-secret@db/klamm",
        "klamm:planted-secret@db",
        "postgresql+asyncpg://klamm:planted-secret@db/klamm",
        "postgresql://klamm:planted-secret@db:port/klamm",
        "postgresql://klamm:planted-secret@[::1/klamm",
        "postgresql://klamm:planted/secret@db/klamm",
        "postgresql://klamm:planted-secret@db/klamm?sslmode=always",
        "postgresql://klamm:planted-secret@db/klamm?sslmode=require&sslrootcert=system",
        "postgresql://klamm:planted-secret@db/klamm?sslmode=verify-ca",
        "postgresql://klamm:planted-secret@db/klamm?sslmod=disable",
        "postgresql://klamm:planted-secret@db/klamm?sslwrong=planted",
        "postgresql://klamm:planted-secret@db/klamm?SSLMODE=disable",
        "postgresql://klamm:planted-secret@db/klamm?connect_timeout=5",
        "postgresql://klamm:planted-secret@db/klamm?aplication_name=planted",
        "postgresql://klamm:planted-secret@db/klamm?planted",
        "postgresql://klamm:planted-secret@db:70000/klamm",
        "postgresql://klamm:planted-secret@db:0/klamm",
        "postgresql://klamm:planted-secret@db,/klamm",
        "postgresql://klamm:planted-secret@db..planted/klamm",
        "postgresql://klamm:planted-secret@db%00/klamm",
        "postgresql:///klamm?host=db,,planted",
        "postgresql:///klamm?port=planted",
        "postgresql://db/klamm?sslnegotiation=planted",
        "postgresql://klamm:planted-secret@db/klamm?sslmode=require&planted",
    ],
)
def test_a_database_url_that_can_not_be_used_is_refused_without_showing_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", url)
    assert _refusal().startswith("KLAMM_DATABASE_URL: ")
    assert "planted" not in _refusal()
    assert "db" not in _refusal()


@pytest.mark.parametrize(
    "url",
    [
        DSN,
        "postgres://db",
        "postgresql://a@:5432/x",
        "postgresql://a@%2Frun%2Fpostgresql/x",
        "postgresql:///x?host=one,two:7&port=5,6&sslnegotiation=direct",
        "postgresql://a@[::1]:5432/x",
        "postgresql://a@h1:1,h2:2/x?sslmode=require",
        "postgresql://a@h/x?application_name=klamm&statement_timeout=5000&timezone=UTC&options=-c%20klamm.mark%3D1",
        "postgresql:///x?host=/run/postgresql&sslmode=&target_session_attrs=primary",
    ],
)
def test_database_urls_of_many_forms_are_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", url)
    assert read_settings().database_url == DatabaseUrl.parse(url)


def test_the_servers_that_a_url_may_want_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", "postgresql://h/klamm?target_session_attrs=planted")
    assert _refusal().startswith("KLAMM_DATABASE_URL: its target_session_attrs must be one of any, primary, standby, ")


def test_a_port_of_postgresqls_variables_is_looked_at_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "planted")
    monkeypatch.setenv("KLAMM_DATABASE_URL", "postgresql://db/klamm")
    assert _refusal().startswith("KLAMM_DATABASE_URL: the variable PGPORT applies to it, and its port must be a number")


@pytest.mark.parametrize(
    ("option", "nearest"),
    [("sslmod", "sslmode"), ("statement_timeot", "statement_timeout"), ("databas", "database")],
)
def test_a_misspelt_option_of_the_database_url_is_told_by_what_was_meant(
    option: str, nearest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", f"{DSN}?{option}=planted")
    assert _refusal() == f"KLAMM_DATABASE_URL: it has an unknown option `{option}`; did you mean `{nearest}`?"


def test_a_secret_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dsn").write_text(f"{DSN}\n")
    _toml('database.url = "postgresql://other"')
    monkeypatch.setenv("KLAMM_DATABASE_URL_FILE", str(tmp_path / "dsn"))
    assert read_settings().database_url == DatabaseUrl.parse(DSN)


def test_a_secret_given_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)
    monkeypatch.setenv("KLAMM_DATABASE_URL_FILE", str(tmp_path / "dsn"))
    assert _refusal() == "KLAMM_DATABASE_URL_FILE: KLAMM_DATABASE_URL is set as well; set only one of them"


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file or directory"), (b"\xff\xfe", "not UTF-8 text")], ids=["missing", "bytes"]
)
def test_a_secrets_file_that_can_not_be_read_is_named(
    content: bytes | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dsn"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("KLAMM_DATABASE_URL_FILE", str(path))
    assert _refusal() == f"KLAMM_DATABASE_URL_FILE: can't read `{path}` ({why})"


def test_a_bad_secret_from_a_file_names_the_variable_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dsn").write_text("planted")
    monkeypatch.setenv("KLAMM_DATABASE_URL_FILE", str(tmp_path / "dsn"))
    assert _refusal().startswith("KLAMM_DATABASE_URL_FILE: expected postgresql://")


def test_only_secrets_have_a_file_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_HOST_FILE", "x")
    assert "there is no such variable" in _refusal()


def test_redacted_settings_show_everything_but_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)
    monkeypatch.setenv("KLAMM_SUPER_USERS", "User:b;User:a")
    settings = read_settings()
    shown = settings.redacted()
    assert shown["super.users"] == "User:a;User:b"
    assert shown["port"] == "8080"
    assert shown["authorizer.enabled"] == "true"
    assert shown["cluster.id"] == ""
    assert shown["database.url"] == "**********"
    assert "planted" not in f"{shown} {settings!r} {settings}"


def test_what_was_given_is_all_but_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", DSN)
    monkeypatch.setenv("KLAMM_SUPER_USERS", "User:a")
    _toml("workers = 1\nport = 0")
    assert read_settings().given() == {"database.url": "**********", "super.users": "User:a", "port": "0"}


def test_a_property_is_named_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_TLS_CERTIFICATE", "x")
    told = "tls.certificate, host, tls.key: they can't be used: mend them"
    flags = {"host": "0.0.0.0", "tls_key": None}  # noqa: S104 - nobody listens
    named = "KLAMM_TLS_CERTIFICATE, --host, `klamm.toml`: tls.key: they can't be used: mend them"
    assert as_given(told, flags) == named
    for other in ("--port: is bad", "settings: `tls.key` is bad", "nothing is named here"):
        assert as_given(other, flags) == other


def test_a_decision_log_that_would_delete_each_file_as_it_is_closed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_DECISION_LOG_RETENTION_BYTES", "1000000")
    assert _refusal().startswith("settings: `decision.log.retention.bytes` is less than `decision.log.rotate.bytes`")
    monkeypatch.setenv("KLAMM_DECISION_LOG_ROTATE_BYTES", "1000000")
    assert read_settings().decision_log_retention_bytes == 1_000_000


def test_there_is_no_decision_log_unless_a_folder_is_given() -> None:
    assert read_settings().decision_log_path is None
    _toml('decision.log.path = "log"\ndecision.log.sample = 0.25')
    assert (read_settings().decision_log_path, read_settings().decision_log_sample) == (Path("log"), 0.25)


def test_the_manual_lists_every_variable_with_its_property() -> None:
    table = (Path(__file__).parents[4] / "docs" / "operations.md").read_text()
    for field in set(Settings.model_fields) - set(TABLES):
        assert f"`KLAMM_{field.upper()}`" in table
        assert f"`{field.replace('_', '.')}`" in table


@pytest.mark.parametrize(
    ("value", "without_callers", "with_callers"), [(None, True, False), ("true", True, True), ("false", False, False)]
)
def test_the_reference_is_served_where_no_callers_are_configured_or_it_is_asked_for(
    value: str | None, *, without_callers: bool, with_callers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("KLAMM_DOCS_ENABLED", value)
    assert read_settings().has_docs is without_callers
    _toml('tokens.file = "t"\n[callers.orders]\nrole = "observe"')
    assert read_settings().has_docs is with_callers


def test_callers_and_issuers_are_tables_of_the_file() -> None:
    _toml(
        'tokens.file = "t"\n[callers.orders]\nrole = "decide"\nprincipals = ["User:orders-*"]\nissuer = "corp"\n'
        'service_account = "shop/orders"\n[issuers.corp]\nissuer = "https://x/"\naudience = "klamm"\njwks = "keys.json"'
    )
    settings = read_settings()
    assert settings.callers["orders"].token_subject == "system:serviceaccount:shop:orders"
    assert settings.issuers["corp"].algorithms == ("RS256", "ES256")
    assert (settings.redacted()["callers"], settings.redacted()["issuers"]) == ("orders", "corp")


DECIDES = 'role = "decide"\nprincipals = ["User:*"]\n'


def test_a_caller_that_makes_no_sense_is_told_by_its_place(subtests: pytest.Subtests) -> None:
    for table, why in [
        ('role = "decide"', "callers.x: a decide caller needs `principals`"),
        ('role = "king"', "callers.x.role:"),
        ('principals = ["User:a"]', "callers.x.role:"),
        ('role = "decide"\nprincipals = ["User:*a"]', "callers.x.principals.0: `User:*a` has a `*` before its end"),
        ('role = "decide"\nprincipals = ["*"]', "callers.x.principals.0: `*` has no colon"),
        ('role = "decide"\nprincipals = ["alice"]', "callers.x.principals.0: `alice` has no colon"),
        ('role = "decide"\nprincipals = ["User:a"]\nprincipal = "User:a"', "callers.x: `principal` is for admin"),
        ('role = "admin"', "callers.x: an admin caller needs `principal`"),
        (
            'role = "admin"\nprincipal = "User:a"\nmay_assert_super = true',
            "callers.x: `principals` and `may_assert_super`",
        ),
        ('role = "observe"\nprincipals = ["User:a"]', "callers.x: `principals` and `may_assert_super` are for decide"),
        ('role = "observe"\nmay_assert_address = true', "callers.x: `may_assert_address` is for admin callers"),
        (
            'role = "decide"\nprincipals = ["User:a"]\nmay_assert_address = true',
            "callers.x: `may_assert_address` is for admin callers, not for decide",
        ),
        ('role = "observe"\nsubject = "a"', "callers.x: `issuer` goes with `subject`"),
        ('role = "observe"\nissuer = "corp"', "callers.x: `issuer` goes with `subject`"),
        (
            'role = "observe"\nissuer = "corp"\nsubject = "a"',
            "`klamm.toml`: `callers.x`: there is no table `issuers.corp`",
        ),
        ('role = "observe"\nsubject = "a"\nservice_account = "a/b"', "callers.x: `subject` and `service_account`"),
        ('role = "observe"\nservice_account = "a"', "callers.x.service_account: expected `namespace/name`"),
        ('role = "observe"\ncertificate = "CN:x"', "callers.x.certificate: expected a name"),
        ('role = "observe"\ncertificate = "DNS:x"', "`klamm.toml`: `callers.x` has a `certificate`"),
        ('role = "observe"\ngroups = ["eng-*"]', "callers.x: `groups` and `groups_claim` are for callers that speak"),
        ('role = "observe"\ngroups_claim = "groups"', "callers.x: `groups` and `groups_claim` are for callers"),
        (
            DECIDES + 'groups_claim = "groups"',
            "callers.x: `groups_claim` is for callers with JWTs; give this caller an `issuer`",
        ),
        (DECIDES + 'groups = ["e*g"]', "callers.x.groups.0: `e*g` has a `*` before its end"),
        (DECIDES + 'groups = [""]', "callers.x.groups.0: a group's name has 1 to 255 characters"),
        (DECIDES + f'groups = ["{"x" * 257}"]', "callers.x.groups.0: a group's name has 1 to 255 characters"),
        (DECIDES + 'groups = "eng-*"', 'callers.x.groups: expected a list, such as ["eng-*"]'),
        (DECIDES + "groups = [7]", "callers.x.groups.0: expected text, in quotes"),
        (DECIDES + 'groups_claim = ""', "callers.x.groups_claim: "),
        ('role = "observe"\nrequests_per_second = 0', "callers.x.requests_per_second:"),
        (
            'role = "observe"\npassword = "a"',
            "callers.x: there is no `password`; the known names are certificate, groups, groups_claim, issuer",
        ),
        ('role = "observe"\nrequest_per_second = 5', "no `request_per_second`; did you mean `requests_per_second`?"),
        (
            'role = "observe"\ntokens.file = "t"',
            "`tokens.file` is a property of its own, not of a caller; move it above the first `[table]`",
        ),
        ('role = "observe"\nport = 1', "`port` is a property of its own, not of a caller"),
        ('role = "observe"\nallow.everyone.if.no.acl.found = true', "`allow.everyone.if.no.acl.found` is a property"),
        ('principals = ["User:a"]', 'callers.x.role: it is missing; write for example `role = "decide"`'),
        ('role = "decide"\nprincipals = "User:*"', 'callers.x.principals: expected a list, such as ["User:*"]'),
        ('role = "decide"\nprincipals = [1]', "callers.x.principals.0: expected text, in quotes"),
        ('role = "admin"\nprincipal = 1', 'callers.x.principal: expected text, in quotes, such as "User:platform"'),
        (
            'role = "decide"\nprincipals = ["User:a"]\nmay_assert_super = "yes"',
            "callers.x.may_assert_super: expected true or false, without quotes",
        ),
        ('role = "observe"\nrequests_per_second = "5"', "callers.x.requests_per_second: expected a whole number"),
        ('role = "observe"\nrequests_per_second = true', "callers.x.requests_per_second: expected a whole number"),
        ('role = "observe"\nrequests_per_second = 5.0', "callers.x.requests_per_second: expected a whole number"),
        ("role = 1", "callers.x.role: it should be 'decide', 'admin', 'observe' or 'follow'"),
        ('role = "observe"', "`callers.x` has no credentials; set `tokens.file`, or give it `issuer` or `certificate`"),
    ]:
        with subtests.test(table=table, why=why):
            _toml(f"[callers.x]\n{table}")
            assert why in _refusal()
            assert _refusal().startswith("`klamm.toml`: ")


def test_an_issuer_that_would_believe_too_much_refuses_the_start(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[dict[str, str | None], str]] = [
        ({"issuer": None}, "issuers.corp.issuer:"),
        ({"audience": None}, "issuers.corp.audience:"),
        ({"jwks": None}, "issuers.corp.jwks:"),
        ({"audience": '""'}, "issuers.corp.audience:"),
        ({"jwks": '"http://login.example.com/keys"'}, "issuers.corp.jwks: expected an https URL"),
        ({"algorithms": '["none"]'}, "issuers.corp.algorithms.0:"),
        ({"algorithms": '["HS256"]'}, "issuers.corp.algorithms.0:"),
        ({"algorithms": "[]"}, "issuers.corp.algorithms:"),
        ({"leeway_s": "61"}, "issuers.corp.leeway_s:"),
        ({"audience": None}, 'issuers.corp.audience: it is missing; write for example `audience = "klamm"`'),
        ({"issuers": '"a"'}, "there is no `issuers`; did you mean `issuer`?"),
        ({"super.users": '"User:a"'}, "`super.users` is a property of its own, not of an issuer"),
        ({"ca_file": '"ca.pem"'}, "`ca_file` is for keys at a URL, but `jwks` is a file"),
        ({"bearer_file": '"token"'}, "`bearer_file` is for keys at a URL, but `jwks` is a file"),
        ({"ca_file": "true"}, "issuers.corp.ca_file: expected the name of a file, in quotes"),
    ]
    for change, why in cases:
        with subtests.test(change=change, why=why):
            table: dict[str, str | None] = {
                "issuer": '"https://x/"',
                "audience": '"klamm"',
                "jwks": '"keys.json"',
                **change,
            }
            _toml(
                "[issuers.corp]\n"
                + "\n".join(f"{name} = {value}" for name, value in table.items() if value is not None)
            )
            assert why in _refusal()


def test_one_issuer_has_one_table() -> None:
    table = 'issuer = "https://x/"\naudience = "klamm"\njwks = "keys.json"\n'
    _toml(f"[issuers.a]\n{table}[issuers.b]\n{table}")
    assert _refusal().startswith("`klamm.toml`: `issuers.b` has the same `issuer` as `issuers.a`; keep one of them")


@pytest.mark.parametrize("kind", ["callers", "issuers"])
def test_what_is_no_table_of_tables_is_told_how_to_write_it(kind: str) -> None:
    for text in (f'{kind} = ["a"]', f'{kind} = "a"', f"[[{kind}]]\nx = 1"):
        _toml(text)
        assert _refusal() == f"`klamm.toml`: {kind}: expected a table; write `[{kind}.NAME]`"
    _toml(f'[{kind}]\norders = "decide"')
    assert _refusal() == f"`klamm.toml`: {kind}.orders: expected a table; write `[{kind}.orders]`"


def test_one_proof_means_one_caller() -> None:
    one = 'role = "observe"\nissuer = "corp"\nsubject = "a"\n'
    corp = '[issuers.corp]\nissuer = "https://x/"\naudience = "klamm"\njwks = "keys.json"\n'
    _toml(f"[callers.a]\n{one}[callers.b]\n{one}{corp}")
    assert "`callers.b` has the same credentials as `callers.a`" in _refusal()


def test_what_does_not_hang_together_is_told(subtests: pytest.Subtests) -> None:
    for text, why in [
        ('tls.certificate = "a"', "`tls.certificate` and `tls.key` go together"),
        ('tls.client.ca = "a"', "`tls.client.ca` needs `tls.certificate`"),
        ('tokens.file = "a"', "`tokens.file` is set, but there is no `[callers.NAME]`"),
        ('[callers.Orders]\nrole = "observe"', "`klamm.toml`: `callers.Orders`: a name has up to 64 characters of a-z"),
        ("[x]", "there is no property `x`"),
        ("[log.x]", "there is no property `log.x`"),
        ('[caller.a]\nrole = "observe"', "there is no table `[caller.a]`; did you mean `[callers.a]`?"),
        ('[tls]\ntokens.file = "t"', "`tokens.file` is a property of its own; move it above the first `[table]`"),
        ("port = true", "port: expected text or a number, not true or false"),
    ]:
        with subtests.test(text=text, why=why):
            _toml(text)
            assert why in _refusal()


def test_no_variable_stands_for_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_CALLERS", "{}")
    assert _refusal().startswith("KLAMM_CALLERS: there is no such variable")
