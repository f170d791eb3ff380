"""client/acls: what does kafka-acls do, against a running Klamm?

Kafka's options, rules, texts and exit codes. May import: client/http, core, formats. Called by: `cli`.
"""
