"""metrics: what does this process count, and how does Prometheus read it?

May import: core. Called by: runtime, rest, logs, process and cli.
"""
