"""store: how are ACLs kept in PostgreSQL, and how does their change feed leave it?

SQL only. May import: core, formats. Called by: cli, which calls `migrate` and then hands
`PostgresAclStore`, `PostgresChangeFeed`, `PostgresPast` and `PostgresBulkStore` to runtime, as its Protocols
`AclStore`, `ChangeFeed`, `PastStore` and `BulkStore`.
"""
