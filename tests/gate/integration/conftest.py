"""A migrated database, the store on it, and a bare connection beside them."""

from tests.store_on_postgres import database, feed, store, store_url

__all__ = ["database", "feed", "store", "store_url"]
