"""client/http: how is a running Klamm asked?

Addresses, credentials, deadlines, repeats, and every failure as one line for the operator.
May import: core, formats; httpx. Called by: the commands of client.
"""
