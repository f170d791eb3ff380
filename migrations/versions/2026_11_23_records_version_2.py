"""Comments on records, ends and owners of ACLs, and the digest of the whole image; the views of version 2 show them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "2026_11_23_records_version_2"
down_revision: str | None = "2026_11_22_exporters"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_TEXT = sa.Text(collation="C")
_TIME = sa.DateTime(timezone=True)

# The columns of v1 first, and with the names that it has worked out.
_VIEWS = (
    "CREATE VIEW acl_v2 AS SELECT v1.*, a.expires_at, a.owner FROM acl_v1 AS v1 JOIN acl AS a USING (id)",
    """CREATE VIEW acl_record_v2 AS
    SELECT v1.*, r.expires_at, r.owner, r.comment, r.hash_version
    FROM acl_record_v1 AS v1 JOIN acl_record AS r USING ("offset")""",
    """CREATE VIEW acl_head_v2 AS
    SELECT cluster_id, epoch, last_offset, hash, log_start_offset,
        CASE digest_offset WHEN last_offset THEN digest END AS digest
    FROM acl_head""",
)

_COMMENTS = (
    "COMMENT ON VIEW acl_v2 IS 'Klamm: the ACLs as of now, with the names of Kafka. Columns of v2 never change.'",
    "COMMENT ON COLUMN acl_v2.expires_at IS 'When the ACL ends, in whole seconds; null: never'",
    "COMMENT ON COLUMN acl_v2.owner IS 'Whom the ACL belongs to, if anybody said'",
    "COMMENT ON COLUMN acl_v2.created_offset IS 'Offset of the record in acl_record_v2 that made the ACL'",
    "COMMENT ON VIEW acl_record_v2 IS 'Klamm: every change in order, with the names of Kafka. Columns never change.'",
    "COMMENT ON COLUMN acl_record_v2.kind IS 'An AccessControlEntryRecord with an id that is there changes its terms'",
    "COMMENT ON COLUMN acl_record_v2.expires_at IS 'As in acl_v2, from this record on'",
    "COMMENT ON COLUMN acl_record_v2.owner IS 'As in acl_v2, from this record on'",
    "COMMENT ON COLUMN acl_record_v2.comment IS 'What the caller said about the change'",
    "COMMENT ON COLUMN acl_record_v2.hash_version IS 'Which form of the record the hash covers (docs/feed.md)'",
    "COMMENT ON VIEW acl_head_v2 IS 'Klamm: which store this is and how far it has come. Columns of v2 never change.'",
    "COMMENT ON COLUMN acl_head_v2.last_offset IS 'Offset of the last record in acl_record_v2; 0 before the first'",
    "COMMENT ON COLUMN acl_head_v2.hash IS 'Hash of the last record; 32 zero bytes before the first'",
    """COMMENT ON COLUMN acl_head_v2.digest IS
'Sum of the SHA-256 of all rows, modulo 2^256 (docs/feed.md); null if it was not kept up to last_offset'""",
)


def upgrade() -> None:
    """Adds columns that the code before does not know: its records are of version 1, and it leaves the digest behind.

    `klamm migrate` works the digest out afterwards.
    """
    op.add_column("acl", sa.Column("expires_at", _TIME))
    op.add_column("acl", sa.Column("owner", _TEXT))
    op.add_column("acl_record", sa.Column("expires_at", _TIME))
    op.add_column("acl_record", sa.Column("owner", _TEXT))
    op.add_column("acl_record", sa.Column("comment", _TEXT))
    op.add_column("acl_record", sa.Column("hash_version", sa.SmallInteger, server_default=sa.text("1"), nullable=False))
    op.add_column("acl_head", sa.Column("digest", sa.LargeBinary))
    op.add_column("acl_head", sa.Column("digest_offset", sa.BigInteger))
    op.create_check_constraint(op.f("ck_acl_head_digest_length"), "acl_head", "octet_length(digest) = 32")
    for statement in (*_VIEWS, *_COMMENTS):
        op.execute(statement)


def downgrade() -> None:
    """Back to records of version 1: comments, ends and owners are lost, and hashes of version 2 can't be followed."""
    for statement in ("DROP VIEW acl_head_v2", "DROP VIEW acl_record_v2", "DROP VIEW acl_v2"):
        op.execute(statement)
    op.drop_constraint(op.f("ck_acl_head_digest_length"), "acl_head")
    for table, columns in {
        "acl_head": ("digest_offset", "digest"),
        "acl_record": ("hash_version", "comment", "owner", "expires_at"),
        "acl": ("owner", "expires_at"),
    }.items():
        for column in columns:
            op.drop_column(table, column)
