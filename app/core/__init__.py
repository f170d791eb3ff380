"""core: what does Kafka mean?

Pure values and functions: no clock, no I/O, no framework; standard library only.
May import: nothing of Klamm but itself. Called by: every other room.
"""
