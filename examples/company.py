"""A made-up company and its Kafka: twelve teams, their resources, some 2,600 ACLs and what they ask for in a day.

All of it follows from one seed. Planted, for the pipeline to find: rights that nobody uses, that a wider one repeats,
that a DENY takes away, that are far too wide, and that name what is no longer there.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

TEAMS = (
    "analytics",
    "catalog",
    "checkout",
    "customers",
    "fraud",
    "inventory",
    "loyalty",
    "orders",
    "payments",
    "platform",
    "search",
    "shipping",
)
NOUNS = (
    *("accounts", "addresses", "alerts", "audits", "batches", "cancellations", "changes", "commands", "events"),
    *("exports", "failures", "imports", "items", "levels", "limits", "notices", "offers", "prices", "profiles"),
    *("quotes", "ratings", "reports", "requests", "results", "returns", "reviews", "scores", "sessions", "states"),
)
SERVICES = ("api", "worker", "importer", "exporter", "enricher", "monitor", "archiver", "gateway")
ADMIN = "User:admin"

_TOPICS, _SHARED = 30, 4
_SEED = 20_261_122

Json = dict[str, str]


@dataclass(frozen=True, slots=True)
class Use:
    """Something that a service does all the time."""

    operation: str
    resource_type: str
    resource_name: str

    def action(self) -> Json:
        """As authorize takes it."""
        return {
            "operation": self.operation,
            "resource_type": self.resource_type,
            "resource_name": self.resource_name,
        }


@dataclass(slots=True)
class Client:
    """A principal, where it connects from, and what it does there."""

    principal: str
    address: str
    uses: list[Use] = field(default_factory=list)


@dataclass(slots=True)
class Wave:
    """One step in the history of the store: what is created and deleted, and who begins to work."""

    title: str
    bindings: list[Json] = field(default_factory=list)
    filters: list[Json] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Company:
    """Its resources, and the waves in which its ACLs came to be."""

    resources: Sequence[tuple[str, str]]
    waves: Sequence[Wave]


def binding(principal: str, operation: str, resource: tuple[str, str], **more: str) -> Json:
    """An ACL as createAcls takes it: ALLOW, LITERAL, from everywhere unless it says otherwise."""
    resource_type, resource_name = resource
    plain = {"pattern_type": "LITERAL", "host": "*", "permission_type": "ALLOW"}
    named = {"resource_type": resource_type, "resource_name": resource_name}
    return {**plain, **named, "principal": principal, "operation": operation, **more}


def company(seed: int = _SEED) -> Company:
    """The company, always the same for the same seed."""
    rng = random.Random(seed)  # noqa: S311 - an example, no secret
    topics = {team: _topics(rng, team) for team in TEAMS}
    resources = [("TOPIC", name) for names in topics.values() for name in names]
    resources += [("GROUP", f"{team}-{service}") for team in TEAMS for service in SERVICES]
    resources += [("TRANSACTIONAL_ID", f"{team}-{service}-tx") for team in TEAMS for service in SERVICES[:3]]
    resources += [("TOPIC", f"dlq.{team}") for team in TEAMS]
    waves = [_platform_wave(), *(_team_wave(rng, team, topics) for team in TEAMS if team != "platform")]
    waves += [_analytics_wave(topics), _partner_wave(topics), _contractor_wave(topics), _left_over_wave(rng)]
    waves.append(_tidy_wave())
    return Company(resources, waves)


def questions(company_: Company, wave: int, number: int, seed: int = _SEED) -> Iterator[tuple[Client, list[Json]]]:
    """About `number` actions, in calls of a client each, of all who work once this wave is done."""
    rng = random.Random(f"{seed} {wave}")  # noqa: S311 - an example, no secret
    clients = [client for each in company_.waves[: wave + 1] for client in each.clients]
    weights = [1 + 40 * rng.random() ** 4 for _ in clients]
    everything = company_.resources
    # Whoever is new begins at once.
    newcomers = list(company_.waves[wave].clients)
    while number > 0:
        client = newcomers.pop() if newcomers else rng.choices(clients, weights)[0]
        count = min(number, rng.randint(20, 60))
        actions = [rng.choice(client.uses).action() for _ in range(count)]
        if rng.random() < 0.3:  # noqa: PLR2004 - now and then somebody tries what it may not
            strange = rng.choice(everything)
            actions[-1] = Use(rng.choice(("READ", "WRITE")), *strange).action()
        yield client, actions
        number -= count


def candidate() -> dict[str, dict[str, object]]:
    """A change that somebody might propose, as a body for deleteAcls and one for createAcls; it breaks something."""
    context = {"principal": ADMIN, "client_address": "127.0.0.1"}
    doubtful = {"principal": "User:payments-gateway", "resource_type": "TOPIC", "pattern_type": "PREFIXED"}
    refusal = binding("User:*", "READ", ("TOPIC", "customers."), pattern_type="PREFIXED", permission_type="DENY")
    grant = binding("User:partner-dhl", "READ", ("TOPIC", "shipping."), pattern_type="PREFIXED")
    return {
        "delete": {"context": context, "filters": [doubtful]},
        "create": {"context": context, "bindings": [refusal, grant]},
    }


def _topics(rng: random.Random, team: str) -> list[str]:
    return [f"{team}.{noun}.v{rng.randint(1, 3)}" for noun in sorted(rng.sample(NOUNS, _TOPICS - 3))] + [
        f"{team}.{name}" for name in ("internal.state.v1", "public.feed.v1", "pii.v1")
    ]


def _platform_wave() -> Wave:
    everything = [
        binding("User:platform-operator", operation, (kind, "*"))
        for kind in ("TOPIC", "GROUP")
        for operation in ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "DELETE")
    ]
    everybody = [
        binding("User:*", "DESCRIBE", ("TOPIC", "*")),
        binding("User:*", "READ", ("TOPIC", "catalog.public.feed.v1")),
    ]
    queues = [binding("User:*", "WRITE", ("TOPIC", "dlq."), pattern_type="PREFIXED")]
    uses = [Use("DESCRIBE", "TOPIC", f"{team}.pii.v1") for team in TEAMS]
    return Wave(
        "platform: operators, and what everybody may do",
        [*everything, *everybody, *queues],
        clients=[Client("User:platform-operator", "10.1.0.10", uses)],
    )


def _team_wave(rng: random.Random, team: str, topics: dict[str, list[str]]) -> Wave:
    wave = Wave(f"{team}: its services")
    network = 10 + TEAMS.index(team)
    for at, service in enumerate(SERVICES):
        principal, name = f"User:{team}-{service}", f"{team}-{service}"
        client = Client(principal, f"10.{network}.{at}.{rng.randint(2, 250)}")
        own = rng.sample(topics[team], 9)
        foreign = [rng.choice(topics[other]) for other in rng.sample(TEAMS, _SHARED) if other != team]
        wanted = [("READ", "TOPIC", topic) for topic in own + foreign]
        wanted += [("WRITE", "TOPIC", topic) for topic in own[:5]]
        wanted += [("READ", "GROUP", name)]
        if service in SERVICES[:3]:
            wanted += [("WRITE", "TRANSACTIONAL_ID", f"{name}-tx")]
        wave.bindings += [binding(principal, operation, (kind, each)) for operation, kind, each in wanted]
        # Tools that "add a consumer" also add DESCRIBE, which READ implies: one more that says nothing new.
        wave.bindings += [binding(principal, "DESCRIBE", ("TOPIC", topic)) for topic in own[:4]]
        used = [each for each in wanted if rng.random() < 0.75]  # noqa: PLR2004 - the rest was asked for just in case
        client.uses = [Use(*each) for each in used or wanted[:1]]
        client.uses.append(Use("WRITE", "TOPIC", f"dlq.{team}"))
        wave.clients.append(client)
    # The gateway got the whole prefix one hectic night, and kept its single rights.
    gateway = f"User:{team}-gateway"
    wave.bindings += [
        binding(gateway, operation, ("TOPIC", f"{team}."), pattern_type="PREFIXED") for operation in ("READ", "WRITE")
    ]
    if team == "payments":
        gateway_client = next(client for client in wave.clients if client.principal == gateway)
        gateway_client.uses = [Use("READ", "TOPIC", topic) for topic in topics[team]]
    wave.bindings.append(
        binding("User:*", "READ", ("TOPIC", f"{team}.pii.v1"), permission_type="DENY", host="10.200.0.0/16")
    )
    return wave


def _analytics_wave(topics: dict[str, list[str]]) -> Wave:
    lake, notebook = "User:analytics-lake", "User:analytics.frieda.klein"
    bindings = [
        binding(lake, "READ", ("TOPIC", "*")),
        binding(lake, "READ", ("GROUP", "analytics-"), pattern_type="PREFIXED"),
    ]
    bindings += [binding(lake, "READ", ("TOPIC", f"{team}.pii.v1"), permission_type="DENY") for team in TEAMS]
    bindings += [binding(notebook, "ALL", ("TOPIC", team), pattern_type="PREFIXED") for team in ("orders", "customers")]
    few = [Use("READ", "TOPIC", topics["orders"][at]) for at in range(6)]
    return Wave(
        "analytics: a lake that reads everything but personal data, and a notebook",
        bindings,
        clients=[
            Client(lake, "10.10.40.7", [*few, Use("READ", "TOPIC", "orders.pii.v1")]),
            Client(notebook, "10.200.3.14", [*few[:2], Use("READ", "TOPIC", "customers.pii.v1")]),
        ],
    )


def _partner_wave(topics: dict[str, list[str]]) -> Wave:
    wave = Wave("partners: only from their own networks")
    networks = {"dhl": "203.0.113.16/28", "postnl": "203.0.113.32/28", "inpost": "198.51.100.0/29"}
    for name, network in networks.items():
        principal = f"User:partner-{name}"
        shared = topics["shipping"][:5]
        wave.bindings += [binding(principal, "READ", ("TOPIC", topic), host=network) for topic in shared]
        address = network.rpartition(".")[0] + f".{int(network.rpartition('.')[2].partition('/')[0]) + 2}"
        wave.clients.append(Client(principal, address, [Use("READ", "TOPIC", topic) for topic in shared[:3]]))
        # The same partner from its office: not allowed, and it tries every day.
        wave.clients.append(Client(principal, "192.0.2.77", [Use("READ", "TOPIC", shared[0])]))
    return wave


def _contractor_wave(topics: dict[str, list[str]]) -> Wave:
    wave = Wave("contractors: broad ALLOWs, narrowed by DENYs")
    for name in ("lukas", "mei", "tomasz"):
        principal = f"User:contractor-{name}"
        wave.bindings += [binding(principal, "READ", ("TOPIC", topic)) for topic in topics["loyalty"][:8]]
        wave.bindings.append(
            binding(principal, "ALL", ("TOPIC", "loyalty."), pattern_type="PREFIXED", permission_type="DENY")
        )
        wave.bindings += [binding(principal, "READ", ("TOPIC", topic)) for topic in topics["search"][:4]]
        wave.clients.append(
            Client(principal, "10.99.1.5", [Use("READ", "TOPIC", topics[team][0]) for team in ("search", "loyalty")])
        )
    return wave


def _left_over_wave(rng: random.Random) -> Wave:
    wave = Wave("migration: abandoned topics, principals that are gone")
    for team in TEAMS:
        principal = f"User:legacy-{team}"
        gone = [f"{team}.{noun}.v0" for noun in rng.sample(NOUNS, 6)]
        wave.bindings += [
            binding(principal, operation, ("TOPIC", name)) for name in gone for operation in ("READ", "WRITE")
        ]
        wave.bindings.append(binding(principal, "READ", ("GROUP", f"legacy-{team}")))
    return wave


def _tidy_wave() -> Wave:
    gone = [{"principal": f"User:legacy-{team}"} for team in TEAMS[:5]]
    return Wave("spring cleaning: some leftovers are removed", filters=[*gone, {"principal": "User:search-archiver"}])
