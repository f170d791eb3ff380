"""One file a step, named by its day: expand, backfill, contract; the code before a step must run after it."""
