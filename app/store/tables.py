"""The store's tables (DESIGN: store and change feed). The views on them are made by the migrations."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
    func,
    text,
)

from app.store.rows import BINDING_COLUMNS

HEAD_LENGTH = 200
"""Names are indexed by this many leading characters: a btree row holds 2,704 bytes, a name has up to 32,767."""


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    },
)


def _text(name: str, *, nullable: bool = False, primary_key: bool = False) -> Column[str]:
    # INVARIANT: "C" orders and compares by code point, as Python and Kafka do; a name is never folded.
    return Column(name, Text(collation="C"), nullable=nullable, primary_key=primary_key)


def _binding(*, nullable: bool) -> list[Column[Any]]:
    return [
        _text(name, nullable=nullable) if kind == "text" else Column(name, SmallInteger, nullable=nullable)
        for name, kind in BINDING_COLUMNS.items()
    ]


acl_head = Table(
    "acl_head",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    _text("cluster_id"),
    Column("epoch", Uuid, nullable=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("log_start_offset", BigInteger, nullable=False),
    Column("system_identifier", BigInteger),
    Column("timeline", Integer),
    Column("digest", LargeBinary),
    Column("digest_offset", BigInteger),
    Column("written_by", BigInteger),
    Column("refused_epoch", Uuid),
    CheckConstraint("only_row", name="only_row"),
    CheckConstraint("octet_length(hash) = 32", name="hash_length"),
    CheckConstraint("octet_length(digest) = 32", name="digest_length"),
    CheckConstraint("log_start_offset BETWEEN 1 AND last_offset + 1", name="log_start_offset"),
)

acl_epoch = Table(
    "acl_epoch",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Uuid, nullable=False, unique=True),
    Column("first_offset", BigInteger, nullable=False),
    Column("began_at", DateTime(timezone=True), nullable=False),
    _text("why"),
)

acl = Table(
    "acl",
    metadata,
    Column("id", Uuid, primary_key=True),
    *_binding(nullable=False),
    Column("natural_key", LargeBinary, nullable=False, unique=True),
    Column("created_offset", BigInteger, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    _text("created_by"),
    Column("expires_at", DateTime(timezone=True)),
    _text("owner", nullable=True),
    CheckConstraint("octet_length(natural_key) = 32", name="natural_key_length"),
)
# Serves the order of a snapshot, and filters by type, by type and name, and by the prefixes of a name (MATCH).
Index("ix_acl_resource", acl.c.resource_type, func.left(acl.c.resource_name, text(str(HEAD_LENGTH))))
Index("ix_acl_principal", func.left(acl.c.principal, text(str(HEAD_LENGTH))))
# Serves the ACLs that have ended, the first to end first.
Index("ix_acl_expires_at", acl.c.expires_at, postgresql_where=acl.c.expires_at.is_not(None))

acl_record = Table(
    "acl_record",
    metadata,
    Column("offset", BigInteger, primary_key=True, autoincrement=False),
    Column("tx_last", BigInteger, nullable=False),
    _text("kind"),
    Column("acl_id", Uuid),
    *_binding(nullable=True),
    _text("config_name", nullable=True),
    _text("config_value", nullable=True),
    Column("recorded_at", DateTime(timezone=True), nullable=False),
    _text("actor"),
    Column("hash", LargeBinary, nullable=False),
    Column("expires_at", DateTime(timezone=True)),
    _text("owner", nullable=True),
    _text("comment", nullable=True),
    Column("hash_version", SmallInteger, nullable=False, server_default=text("1")),
    Column("was_there", Boolean),
    Column("prior_expires_at", DateTime(timezone=True)),
    _text("prior_owner", nullable=True),
    _text("prior_value", nullable=True),
)
# Serve the past of a pattern, of a principal and of a property.
Index(
    "ix_acl_record_resource",
    acl_record.c.resource_type,
    func.left(acl_record.c.resource_name, text(str(HEAD_LENGTH))),
    acl_record.c.offset,
)
Index("ix_acl_record_principal", func.left(acl_record.c.principal, text(str(HEAD_LENGTH))), acl_record.c.offset)
Index(
    "ix_acl_record_config",
    acl_record.c.config_name,
    acl_record.c.offset,
    postgresql_where=acl_record.c.config_name.is_not(None),
)

config = Table(
    "config",
    metadata,
    _text("name", primary_key=True),
    _text("value"),
    Column("changed_offset", BigInteger, nullable=False),
)

exporter = Table(
    "exporter",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("epoch", Uuid, nullable=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("told_at", DateTime(timezone=True), nullable=False),
    comment="Klamm: up to where each export of the feed has come, by the id of its home",
)

code_name = Table(
    "code_name",
    metadata,
    _text("field", primary_key=True),
    Column("code", SmallInteger, primary_key=True, autoincrement=False),
    _text("name"),
)
