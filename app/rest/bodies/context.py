"""What a request says of itself: principal and client address as they are written, and its optional fields."""

from typing import TypeVar

from msgspec import UNSET, UnsetType

from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import ClientAddress, parse_address
from app.rest.errors import InvalidFieldsException, invalid_field

T = TypeVar("T")


def client_address(text: str, where: str = "/context") -> ClientAddress:
    """The address of the `client_address` in the context, or in what else names a client. Nothing is resolved."""
    try:
        return parse_address(text)
    except InvalidRequestException as refusal:
        raise invalid_field(f"{where}/client_address", refusal.message) from None


def check_principal(principal: str, where: str = "/context") -> None:
    """Refuse a principal that has no type."""
    if ":" not in principal:
        raise untyped_principal(principal, where)


def untyped_principal(principal: str, where: str = "/context") -> InvalidFieldsException:
    """The refusal of a principal that has no type."""
    return invalid_field(
        f"{where}/principal",
        f"`{principal[:100]}` has no colon between type and name; send for example `User:alice`",
    )


def seconds(milliseconds: int | UnsetType | None) -> float | None:
    """A caller's timeout, if it has one."""
    limit = given(milliseconds)
    return None if limit is None else limit / 1000


def given(value: T | UnsetType | None) -> T | None:
    """The value of an optional field; a field that is absent means the same as null."""
    return None if value is UNSET else value
