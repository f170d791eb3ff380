"""Which faults are outages, and what they are called."""

import errno
import socket

import asyncpg
import pytest

from app.core.kafka.errors import StoreUnavailableException
from app.store.engine import StoreTimeouts
from app.store.faults import NotMigratedError, answer_to, is_rolled_back, translated_faults


def test_outages_are_told_without_what_the_server_said(subtests: pytest.Subtests) -> None:
    for fault in [
        TimeoutError(),
        ConnectionResetError("planted secret"),
        OSError("planted secret"),
        NotMigratedError(),
        asyncpg.InterfaceError("planted secret"),
        asyncpg.InternalClientError("planted secret"),
        asyncpg.PostgresError("planted secret"),
        asyncpg.ConnectionDoesNotExistError("planted secret"),
        asyncpg.CannotConnectNowError("planted secret"),
        asyncpg.InvalidPasswordError("planted secret"),
        asyncpg.InvalidCatalogNameError("planted secret"),
        asyncpg.DeadlockDetectedError("planted secret"),
    ]:
        with subtests.test(fault=fault):
            with pytest.raises(StoreUnavailableException) as told, translated_faults():
                raise fault

            assert "planted secret" not in told.value.message
            assert told.value.__cause__ is fault


@pytest.mark.parametrize(
    "fault",
    [
        asyncpg.UniqueViolationError("x"),
        asyncpg.CharacterNotInRepertoireError("x"),
        asyncpg.ProgramLimitExceededError("x"),
        asyncpg.exceptions.ClientConfigurationError("x"),
        KeyError("x"),
    ],
)
def test_what_blames_the_sender_passes_through(fault: Exception) -> None:
    with pytest.raises(type(fault)) as told, translated_faults():
        raise fault
    assert told.value is fault


def test_the_way_to_the_server_is_told_by_what_is_wrong_with_it(subtests: pytest.Subtests) -> None:
    for fault, told in [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "nothing listens on the host and port"),
        (OSError("Multiple exceptions: [Errno 111] failed ('::1', 1), [Errno 111] failed ('127.0.0.1', 1)"), "nothing"),
        (OSError("Multiple exceptions: [Errno 111] failed ('::1', 1), [Errno 113] failed"), "can't be reached"),
        (OSError(errno.ENETUNREACH, "x"), "there is no route to the host"),
        (FileNotFoundError(errno.ENOENT, "x"), "there is no socket in the folder"),
        (OSError(errno.EIO, "x"), "can't be reached"),
        (OSError("x"), "can't be reached"),
        (socket.gaierror(socket.EAI_NONAME, "x"), "can't be resolved"),
        (TimeoutError(), "does not answer in time"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "does not answer in time"),
    ]:
        with (
            subtests.test(fault=fault, told=told),
            pytest.raises(StoreUnavailableException, match=told),
            translated_faults(),
        ):
            raise fault


def test_each_refusal_names_its_own_way_out(subtests: pytest.Subtests) -> None:
    for sqlstate, told in [
        ("28P01", "the user does not exist, or the password is wrong"),
        ("28000", "has LOGIN"),
        ("53300", "CONNECTION LIMIT"),
        ("42703", "run `klamm migrate`"),
        ("57P03", "starting or shutting down"),
        ("57P04", "was dropped"),
        ("57P05", "was idle"),
    ]:
        with subtests.test(sqlstate=sqlstate, told=told):
            assert told in answer_to(sqlstate)


def test_a_sqlstate_is_told_only_where_there_is_no_better_word() -> None:
    assert answer_to("28P02") == "PostgreSQL refused the credentials of `database.url`; correct them"
    assert "57P03" not in answer_to("57P03")
    assert "XX001" in answer_to("XX001")


@pytest.mark.parametrize(
    "said", ["unsupported startup parameter: jit", "unsupported startup parameter in options: jit"]
)
def test_a_parameter_that_a_pooler_refuses_is_named_with_the_ways_out(said: str) -> None:
    with pytest.raises(StoreUnavailableException) as told, translated_faults():
        raise asyncpg.ProtocolViolationError(said)
    assert "refuses the start-up parameter `jit`" in told.value.message
    assert "ignore_startup_parameters" in told.value.message
    assert "broke" not in told.value.message


@pytest.mark.parametrize(
    "said",
    [
        "unsupported startup parameter: planted secret",
        "unsupported startup parameter: a\nplanted",
        "unsupported startup parameter: " + "planted" * 40,
        "planted secret",
    ],
)
def test_what_no_parameter_can_be_called_is_not_repeated(said: str) -> None:
    with pytest.raises(StoreUnavailableException) as told, translated_faults():
        raise asyncpg.ProtocolViolationError(said)
    assert "planted" not in told.value.message


def test_only_an_error_of_the_server_proves_that_a_commit_was_rolled_back() -> None:
    error, fatal = asyncpg.DiskFullError("x"), asyncpg.AdminShutdownError("x")
    error.severity_en, fatal.severity_en = "ERROR", "FATAL"

    assert is_rolled_back(error)
    assert not is_rolled_back(fatal)
    assert not is_rolled_back(asyncpg.ConnectionDoesNotExistError("x"))
    assert not is_rolled_back(TimeoutError())


def test_a_commit_is_given_up_before_the_servers_own_limit() -> None:
    timeouts = StoreTimeouts(statement_s=2.0)

    assert timeouts.commit_s < timeouts.statement_s < timeouts.reply_s
