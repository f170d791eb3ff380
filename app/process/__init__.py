"""process: how do sockets and several processes serve as one?

The listening socket, the supervisor above the workers, and what they ask each other; it decides no request.
May import: core, formats, metrics, logs. Called by: rest (connections, probes) and cli.
"""
