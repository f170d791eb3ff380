"""rest: which URL, status, header or JSON field is this?

HTTP and JSON around the authorizer: strict bodies in, per-item results and problem+json out; decides nothing itself.
May import: runtime, logs, metrics, process, core. Called by: cli (`create_rest_app`, `build_openapi`).
"""
