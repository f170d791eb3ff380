"""Pages: what is this service, and how is it asked? For people with a browser and tools that read OpenAPI.

May import: rest/http. Called by `app.rest.app`; `app.cli.main` says whether there is a reference.
"""
