"""What is needed to try out requests on some ACLs: an image of them alone, and a principal that none of them names."""

from collections.abc import Container, Iterable
from itertools import count
from uuid import UUID

from app.core.image import AuthorizerImage, ImageBuilder
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.configs import AuthorizerConfig
from app.core.records import GENESIS_HASH, FeedHead

_HEAD = FeedHead(cluster_id="", epoch=UUID(int=0), last_offset=0, hash=GENESIS_HASH, log_start_offset=1)


def image_of(acls: Iterable[AclBinding], config: AuthorizerConfig) -> AuthorizerImage:
    builder = ImageBuilder(config)
    numbered = enumerate(sorted(acls, key=sort_key), 1)
    builder.add_rows([StandardAcl(UUID(int=number), acl).row for number, acl in numbered])
    return builder.build(_HEAD)


def somebody_besides(*taken: Container[str]) -> str:
    names = (f"User:somebody-else{number or ''}" for number in count())
    return next(name for name in names if not any(name in some for some in taken))
