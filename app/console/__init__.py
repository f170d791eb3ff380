"""console: what does a person see of access in a browser?

Pages at `/console`. They read and change everything through the service's own REST routes, called in process as any
caller calls them over the network.
May import: rest, client, formats, core. Never runtime, store, settings. Called by: cli (`console_routes`).
"""
