"""rest: which URL, status, header or JSON field is this?

HTTP and JSON around the authorizer: strict bodies in, per-item results and problem+json out; decides nothing itself.
May import: runtime, ops (metrics, audit), core. Called by: main and cli (`create_rest_app`, `build_openapi`).
"""
