"""client/http: how is a running Klamm called?

Addresses, credentials, deadlines, retries, and every failure as one line for the operator.
May import: core, formats; httpx. Called by: the commands of client.
"""
