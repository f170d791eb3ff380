"""Time limits of a store for tests that are not about them: no machine is that slow."""

from app.store.engine import StoreTimeouts

PATIENT = StoreTimeouts(
    connect_s=30.0,
    answer_s=30.0,
    statement_s=60.0,
    lock_s=30.0,
    idle_in_transaction_s=60.0,
    transaction_s=60.0,
)
