"""What a line of the vectors sets up: a configuration, an image, and the plain-scan reference beside it."""

from app.core.image import AuthorizerImage
from app.core.kafka.configs import AuthorizerConfig, parse_configs
from tests.images import acl_of, image_of
from tests.reference import Reference
from tests.vectors.loader import Line


def config_of(line: Line) -> AuthorizerConfig:
    """The line's configuration."""
    return parse_configs({name: str(value) for name, value in line["config"].items()})


def image_in(line: Line) -> AuthorizerImage:
    """The line's ACLs as core holds them; before the first load if the line says so."""
    if not line.get("loaded", True):
        return AuthorizerImage.empty(config_of(line))
    return image_of(map(acl_of, line["acls"]), config_of(line))


def reference_in(line: Line, *, zero_is_nowhere: bool) -> Reference:
    """The line's ACLs as the documented rules read them, with or without Kafka's slip about 0.0.0.0."""
    config = config_of(line)
    return Reference(
        [acl_of(fields).binding for fields in line["acls"]],
        config.super_users,
        config.allow_everyone_if_no_acl_found,
        zero_is_nowhere,
    )
