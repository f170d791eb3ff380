"""rest/bodies: what does a request or a reply look like in JSON?

May import: core, runtime, rest/errors. Called by: rest/http and rest/routes.
"""
