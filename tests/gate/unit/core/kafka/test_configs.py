import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.kafka.configs import (
    ALLOW_EVERYONE,
    AUDIT_LEVEL,
    AUDIT_LEVELS,
    CONFIG_NAMES,
    EARLY_START_LISTENERS,
    MAX_STALENESS_MS,
    SUPER_USERS,
    AuthorizerConfig,
    describe,
    effective_config,
    parse_configs,
    validate_config,
)
from app.core.kafka.errors import InvalidRequestException


def refusal_of(name: str, value: str | None) -> str:
    with pytest.raises(InvalidRequestException) as refusal:
        validate_config(name, value)
    return refusal.value.message


def test_nothing_given_means_the_defaults() -> None:
    assert parse_configs({}) == AuthorizerConfig()
    assert parse_configs(dict.fromkeys(CONFIG_NAMES)) == AuthorizerConfig()
    assert AuthorizerConfig() == AuthorizerConfig(frozenset(), False, frozenset(), None, "INFO")  # noqa: FBT003 (the default)


def test_every_property_is_read() -> None:
    config = parse_configs(
        {
            SUPER_USERS: " User:admin ;; User:CN=ops, O=Klamm;",
            ALLOW_EVERYONE: "True",
            EARLY_START_LISTENERS: "INTERNAL, REPLICATION,,",
            MAX_STALENESS_MS: " 30000 ",
            AUDIT_LEVEL: "debug",
        }
    )
    assert config == AuthorizerConfig(
        super_users=frozenset({"User:admin", "User:CN=ops, O=Klamm"}),
        allow_everyone_if_no_acl_found=True,
        early_start_listeners=frozenset({"INTERNAL", "REPLICATION"}),
        max_staleness_ms=30_000,
        audit_level="DEBUG",
    )


def test_trimming_is_javas() -> None:
    assert parse_configs({SUPER_USERS: "\x01User:a\t;\u00a0User:b\u00a0"}).super_users == {
        "User:a",
        "\u00a0User:b\u00a0",
    }
    assert not parse_configs({ALLOW_EVERYONE: "\u2003true"}).allow_everyone_if_no_acl_found


@pytest.mark.parametrize("value", [None, "", "  "])
def test_staleness_without_a_number_is_off(value: str | None) -> None:
    assert parse_configs({MAX_STALENESS_MS: value}).max_staleness_ms is None


@pytest.mark.parametrize(("value", "ms"), [("1", 1), ("+7", 7), ("007", 7), ("9223372036854775807", 2**63 - 1)])
def test_staleness_is_a_positive_long(value: str, ms: int) -> None:
    assert parse_configs({MAX_STALENESS_MS: value}).max_staleness_ms == ms


def test_staleness_refuses_what_is_no_long(subtests: pytest.Subtests) -> None:
    for value in ["x", "1.5", "1_000", "\u0663", "9223372036854775808", "9" * 5000, "1s", "0x10"]:
        with subtests.test(value=value):
            expected = f"Invalid value {value} for configuration max.staleness.ms: Not a number of type LONG"
            assert refusal_of(MAX_STALENESS_MS, value) == expected


@pytest.mark.parametrize("value", ["0", "-1"])
def test_staleness_refuses_zero_and_less(value: str) -> None:
    expected = f"Invalid value {value} for configuration max.staleness.ms: Value must be at least 1"
    assert refusal_of(MAX_STALENESS_MS, value) == expected


def test_audit_level_takes_every_level_in_any_case(subtests: pytest.Subtests) -> None:
    for level in AUDIT_LEVELS:
        with subtests.test(level=level):
            assert parse_configs({AUDIT_LEVEL: f" {level.title()} "}).audit_level == level


@pytest.mark.parametrize("level", ["", "ALL", "VERBOSE"])
def test_audit_level_refuses_other_words(level: str) -> None:
    assert refusal_of(AUDIT_LEVEL, level) == (
        f"Invalid value {level} for configuration audit.level: "
        "String must be one of (case insensitive): TRACE, DEBUG, INFO, WARN, ERROR, OFF"
    )


def test_a_principal_without_a_colon_is_no_super_user() -> None:
    expected = "expected a string in format principalType:principalName but got bob"
    assert refusal_of(SUPER_USERS, "User:alice; bob ;carol") == expected


def test_a_property_that_does_not_exist_is_refused_with_those_that_do() -> None:
    message = refusal_of("super.user", "User:a")
    assert "unknown property `super.user`" in message
    assert all(name in message for name in CONFIG_NAMES)


@pytest.mark.parametrize("name", CONFIG_NAMES)
def test_no_property_takes_nul(name: str) -> None:
    assert "U+0000" in refusal_of(name, "User:a\0")


@pytest.mark.parametrize("name", CONFIG_NAMES)
def test_every_property_takes_null(name: str) -> None:
    validate_config(name, None)


def test_parsing_refuses_as_validation_does() -> None:
    with pytest.raises(InvalidRequestException, match="expected a string in format"):
        parse_configs({SUPER_USERS: "alice"})
    with pytest.raises(InvalidRequestException, match="unknown property"):
        parse_configs({"superusers": ""})


def test_stored_values_stand_over_those_of_the_start() -> None:
    startup = parse_configs({SUPER_USERS: "User:a", ALLOW_EVERYONE: "true", MAX_STALENESS_MS: "5"})
    config = effective_config(startup, {SUPER_USERS: "User:b", MAX_STALENESS_MS: ""})
    assert config.super_users == {"User:b"}
    assert config.allow_everyone_if_no_acl_found
    assert config.max_staleness_ms is None
    assert effective_config(startup, {}) == startup


words = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Z"], blacklist_characters=";,:"), min_size=1)


@given(
    st.builds(
        AuthorizerConfig,
        super_users=st.frozensets(words.map(lambda name: f"User:{name}")),
        allow_everyone_if_no_acl_found=st.booleans(),
        early_start_listeners=st.frozensets(words),
        max_staleness_ms=st.none() | st.integers(1, 2**63 - 1),
        audit_level=st.sampled_from(AUDIT_LEVELS),
    )
)
def test_what_is_described_reads_back_to_the_same(config: AuthorizerConfig) -> None:
    described = describe(config)
    assert tuple(described) == CONFIG_NAMES
    assert parse_configs(described) == config
