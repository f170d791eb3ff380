"""Two programs that look for faults of what carries the feed; no tests, and no part of any gate.

`python -m tests.campaign.followers --minutes 30 --seed 1` runs two services on one PostgreSQL, a hot standby, three
followers, a real Kafka broker and a plugin in a JVM of its own, and does them harm by a schedule that the seed draws:
kills, cut links, frozen processes, older copies of the store, forged positions, upstreams that never end a line.
Clients ask every node meanwhile. Run it after a change of `core/following`, `core/epochs`, `upstream`, `store/writing`,
`runtime/watch` or of the plugin's follower, with several seeds. `--restarts 200` (15 minutes) restarts services, and
counts the snapshots that it costs followers.

`python -m tests.campaign.upgrade` (15 minutes) runs service, follower and plugin of this version and of a version
before in all mixtures. Run it before a release.

Both need a JDK and Maven, listen on loopback only, end all that they have begun, and exit with 1 after a violation.
"""
