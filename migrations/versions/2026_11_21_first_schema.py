"""The first schema: head, ACLs, records, configs, names of codes, and the published views."""

from collections.abc import Sequence
from uuid import uuid4

import sqlalchemy as sa
from alembic import context, op

from app.core.records import GENESIS_HASH

revision: str = "2026_11_21_first_schema"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_TEXT = sa.Text(collation="C")
_TIME = sa.DateTime(timezone=True)

_ACL_V1 = """
CREATE VIEW acl_v1 AS
SELECT a.id,
    coalesce(resource_types.name, 'UNKNOWN') AS resource_type,
    a.resource_name,
    coalesce(pattern_types.name, 'UNKNOWN') AS pattern_type,
    a.principal,
    a.host,
    coalesce(operations.name, 'UNKNOWN') AS operation,
    coalesce(permission_types.name, 'UNKNOWN') AS permission_type,
    a.created_offset, a.created_at, a.created_by
FROM acl AS a
LEFT JOIN code_name AS resource_types
    ON resource_types.field = 'resource_type' AND resource_types.code = a.resource_type
LEFT JOIN code_name AS pattern_types
    ON pattern_types.field = 'pattern_type' AND pattern_types.code = a.pattern_type
LEFT JOIN code_name AS operations
    ON operations.field = 'operation' AND operations.code = a.operation
LEFT JOIN code_name AS permission_types
    ON permission_types.field = 'permission_type' AND permission_types.code = a.permission_type
"""

_ACL_RECORD_V1 = """
CREATE VIEW acl_record_v1 AS
SELECT r."offset", r.tx_last, r.kind, r.acl_id,
    coalesce(resource_types.name, CASE WHEN r.resource_type IS NOT NULL THEN 'UNKNOWN' END) AS resource_type,
    r.resource_name,
    coalesce(pattern_types.name, CASE WHEN r.pattern_type IS NOT NULL THEN 'UNKNOWN' END) AS pattern_type,
    r.principal,
    r.host,
    coalesce(operations.name, CASE WHEN r.operation IS NOT NULL THEN 'UNKNOWN' END) AS operation,
    coalesce(permission_types.name, CASE WHEN r.permission_type IS NOT NULL THEN 'UNKNOWN' END) AS permission_type,
    r.config_name, r.config_value, r.recorded_at, r.actor, r.hash
FROM acl_record AS r
LEFT JOIN code_name AS resource_types
    ON resource_types.field = 'resource_type' AND resource_types.code = r.resource_type
LEFT JOIN code_name AS pattern_types
    ON pattern_types.field = 'pattern_type' AND pattern_types.code = r.pattern_type
LEFT JOIN code_name AS operations
    ON operations.field = 'operation' AND operations.code = r.operation
LEFT JOIN code_name AS permission_types
    ON permission_types.field = 'permission_type' AND permission_types.code = r.permission_type
"""

_COMMENTS = (
    "COMMENT ON VIEW acl_v1 IS 'Klamm: the ACLs as of now, with the names of Kafka. Columns of v1 never change.'",
    "COMMENT ON COLUMN acl_v1.id IS 'UUID of the ACL, kept from its creation to its removal'",
    "COMMENT ON COLUMN acl_v1.resource_type IS 'TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER'",
    "COMMENT ON COLUMN acl_v1.pattern_type IS 'LITERAL or PREFIXED (KIP-290)'",
    "COMMENT ON COLUMN acl_v1.host IS 'An address, a range of addresses, or * for all'",
    "COMMENT ON COLUMN acl_v1.operation IS 'READ, WRITE, ...; ALL for every operation'",
    "COMMENT ON COLUMN acl_v1.permission_type IS 'ALLOW or DENY'",
    "COMMENT ON COLUMN acl_v1.created_offset IS 'Offset of the record in acl_record_v1 that made the ACL'",
    "COMMENT ON COLUMN acl_v1.created_at IS 'Clock of the database as the writer had its turn'",
    "COMMENT ON COLUMN acl_v1.created_by IS 'Principal of the createAcls call'",
    "COMMENT ON VIEW acl_record_v1 IS 'Klamm: every change in order, with the names of Kafka. Columns never change.'",
    "COMMENT ON COLUMN acl_record_v1.\"offset\" IS 'Dense, in commit order; a hole means damage'",
    "COMMENT ON COLUMN acl_record_v1.tx_last IS 'Offset of the last record of the same transaction'",
    "COMMENT ON COLUMN acl_record_v1.kind IS 'Kind of change, spelled as the metadata record of Kafka'",
    "COMMENT ON COLUMN acl_record_v1.config_value IS 'Null where a ConfigRecord goes back to the start-up value'",
    "COMMENT ON COLUMN acl_record_v1.recorded_at IS 'Clock of the database, one time for the whole transaction'",
    "COMMENT ON COLUMN acl_record_v1.actor IS 'Principal of the call that made the change'",
    "COMMENT ON COLUMN acl_record_v1.hash IS 'SHA-256 over the hash of the record before and this record'",
)


def upgrade() -> None:
    """To this schema; the one row of the head is born here."""
    _create_head()
    _create_acls()
    _create_records()
    op.create_table(
        "config",
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("value", _TEXT, nullable=False),
        sa.Column("changed_offset", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_config"),
    )
    op.create_table(
        "code_name",
        sa.Column("field", _TEXT, nullable=False),
        sa.Column("code", sa.SmallInteger, autoincrement=False, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("field", "code", name="pk_code_name"),
    )
    for statement in (_ACL_V1, _ACL_RECORD_V1, *_COMMENTS):
        op.execute(statement)


def downgrade() -> None:
    """To an empty schema: all ACLs are lost."""
    op.execute("DROP VIEW acl_record_v1")
    op.execute("DROP VIEW acl_v1")
    for table in ("code_name", "config", "acl_record", "acl", "acl_head"):
        op.drop_table(table)


def _create_head() -> None:
    head = op.create_table(
        "acl_head",
        sa.Column("only_row", sa.Boolean, server_default=sa.text("true"), nullable=False),
        sa.Column("cluster_id", _TEXT, nullable=False),
        sa.Column("epoch", sa.Uuid, nullable=False),
        sa.Column("last_offset", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("log_start_offset", sa.BigInteger, nullable=False),
        sa.Column("system_identifier", sa.BigInteger),
        sa.Column("timeline", sa.Integer),
        sa.PrimaryKeyConstraint("only_row", name="pk_acl_head"),
        sa.CheckConstraint("only_row", name=op.f("ck_acl_head_only_row")),
        sa.CheckConstraint("octet_length(hash) = 32", name=op.f("ck_acl_head_hash_length")),
        sa.CheckConstraint(
            "log_start_offset BETWEEN 1 AND last_offset + 1",
            name=op.f("ck_acl_head_log_start_offset"),
        ),
    )
    birth = {
        "cluster_id": context.config.attributes["cluster_id"],
        "epoch": uuid4(),
        "last_offset": 0,
        "hash": GENESIS_HASH,
        "log_start_offset": 1,
    }
    op.bulk_insert(head, [birth])


def _create_acls() -> None:
    op.create_table(
        "acl",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("resource_type", sa.SmallInteger, nullable=False),
        sa.Column("pattern_type", sa.SmallInteger, nullable=False),
        sa.Column("operation", sa.SmallInteger, nullable=False),
        sa.Column("permission_type", sa.SmallInteger, nullable=False),
        sa.Column("resource_name", _TEXT, nullable=False),
        sa.Column("principal", _TEXT, nullable=False),
        sa.Column("host", _TEXT, nullable=False),
        sa.Column("natural_key", sa.LargeBinary, nullable=False),
        sa.Column("created_offset", sa.BigInteger, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("created_by", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_acl"),
        sa.UniqueConstraint("natural_key", name="uq_acl_natural_key"),
        sa.CheckConstraint("octet_length(natural_key) = 32", name=op.f("ck_acl_natural_key_length")),
    )
    op.create_index("ix_acl_resource", "acl", ["resource_type", sa.text("left(resource_name, 200)")])
    op.create_index("ix_acl_principal", "acl", [sa.text("left(principal, 200)")])


def _create_records() -> None:
    op.create_table(
        "acl_record",
        sa.Column("offset", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("tx_last", sa.BigInteger, nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("acl_id", sa.Uuid),
        sa.Column("resource_type", sa.SmallInteger),
        sa.Column("pattern_type", sa.SmallInteger),
        sa.Column("operation", sa.SmallInteger),
        sa.Column("permission_type", sa.SmallInteger),
        sa.Column("resource_name", _TEXT),
        sa.Column("principal", _TEXT),
        sa.Column("host", _TEXT),
        sa.Column("config_name", _TEXT),
        sa.Column("config_value", _TEXT),
        sa.Column("recorded_at", _TIME, nullable=False),
        sa.Column("actor", _TEXT, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("offset", name="pk_acl_record"),
    )
