"""store: how are ACLs kept in PostgreSQL, and how does their change feed leave it?

SQL and nothing but SQL. May import: core. Called by: main and cli, which hand `PostgresAclStore` and
`PostgresChangeFeed` to runtime as its Protocols `AclStore` and `ChangeFeed`, and call `migrate` before.
"""
