from app.core.kafka import errors
from app.core.kafka.errors import ApiException, Errors, PoisonedRecordException

KAFKAS = {
    "OFFSET_OUT_OF_RANGE": 1,
    "NONE": 0,
    "REQUEST_TIMED_OUT": 7,
    "TOPIC_AUTHORIZATION_FAILED": 29,
    "GROUP_AUTHORIZATION_FAILED": 30,
    "CLUSTER_AUTHORIZATION_FAILED": 31,
    "INVALID_REQUEST": 42,
    "POLICY_VIOLATION": 44,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": 53,
    "SECURITY_DISABLED": 54,
    "SASL_AUTHENTICATION_FAILED": 58,
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": 65,
    "OFFSET_NOT_AVAILABLE": 78,
    "THROTTLING_QUOTA_EXCEEDED": 89,
    "RESOURCE_NOT_FOUND": 91,
    "INVALID_UPDATE_VERSION": 95,
    "INCONSISTENT_CLUSTER_ID": 104,
}


def exceptions() -> list[type[ApiException]]:
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ApiException)]
    assert len(found) > 10
    return found


def test_numbers_are_kafkas_and_klamms_own_names_have_none() -> None:
    assert {error.name: error.error_code for error in Errors if error.error_code != -1} == KAFKAS
    assert {error.name for error in Errors if error.error_code == -1} == {
        "UNKNOWN_SERVER_ERROR",
        "AUTHORIZER_NOT_READY",
        "STORE_UNAVAILABLE",
        "OVERLOADED",
        "TOKEN_EPOCH_MISMATCH",
        "TOKEN_EPOCH_INVALID",
    }


def test_an_exceptions_text_is_its_message() -> None:
    for each in exceptions():
        refusal = each("why")
        assert (refusal.message, str(refusal)) == ("why", "why")
        assert refusal.error is not Errors.NONE


def test_only_what_may_pass_by_itself_is_retriable() -> None:
    assert {each.__name__ for each in exceptions() if each.error.retriable} == {
        "AuthorizerNotReadyException",
        "StoreUnavailableException",
        "OverloadedException",
        "ThrottlingQuotaExceededException",
        "RequestTimedOutException",
        "OffsetNotAvailableException",
    }


def test_a_poisoned_record_says_where_and_why() -> None:
    poisoned = PoisonedRecordException(7, "it is broken")
    assert (poisoned.offset, poisoned.why, str(poisoned)) == (7, "it is broken", "record 7: it is broken")
    assert str(PoisonedRecordException(-1, "the snapshot is broken")) == "the snapshot is broken"
