"""core/kafka: how does Kafka spell and check an ACL?

Codes, errors, bindings, filters, hosts, operations, the properties that can change, and what is refused in which words.
May import: nothing of Klamm but itself. Called by: every room.
"""
