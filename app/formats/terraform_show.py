"""What `terraform show -json` prints: a state, or a plan with the values that it will have.

A state doesn't say by which provider configuration a resource was made, so neither of which cluster it is; a plan does,
in the configuration that comes with it.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import field

from app.formats.acl_entries import MAX_SHOWN, Entry, FieldPlace, Problem
from app.formats.reading import Cluster, Reading
from app.formats.shape_faults import Fault, Refused
from app.formats.shape_reader import read_shape
from app.formats.shapes import PassedOver, Raw, Shape, as_text
from app.formats.terraform_acls import KIND, AclFields, refusal_of_acls_in, refusal_of_type, within
from app.formats.yaml_documents import Fields, Value, fields_of, is_null, line_of

_MODULE_NAME = re.compile(r"module\.([\w-]+)(?:\[.*\])?\Z", re.DOTALL)
_MAJOR_VERSIONS = ("0", "1")
_MANAGED = "managed"


def _known_version(text: str) -> str:
    if text.partition(".")[0] not in _MAJOR_VERSIONS:
        raise ValueError(f"`{text[:MAX_SHOWN]}` is unknown to Klamm, which knows 1 and its minor versions")
    return text


_Version = Annotated[str, as_text(_known_version)]


class _State(Shape):
    format_version: _Version
    terraform_version: PassedOver = None
    values: Raw = None
    checks: PassedOver = None


class _Plan(Shape):
    format_version: _Version
    planned_values: Raw
    configuration: Raw = None
    complete: bool = True
    errored: bool = False
    deferred_changes: list[Raw] | None = None
    terraform_version: PassedOver = None
    variables: PassedOver = None
    prior_state: PassedOver = None
    resource_changes: PassedOver = None
    resource_drift: PassedOver = None
    output_changes: PassedOver = None
    relevant_attributes: PassedOver = None
    condition_results: PassedOver = None
    action_invocations: PassedOver = None
    deferred_action_invocations: PassedOver = None
    checks: PassedOver = None
    timestamp: PassedOver = None
    applyable: PassedOver = None

    def problems(self) -> Iterator[Problem]:
        """Why it may lack ACLs."""
        if self.errored:
            yield Problem("Terraform failed while it made this plan, so ACLs may be missing; plan again", ("errored",))
        elif not self.complete:
            text = "the plan is not whole, so ACLs may be missing; plan again without -target, and apply what it needs"
            yield Problem(text, ("complete",))
        if self.deferred_changes:
            yield Problem("some resources are not planned yet; apply this plan, and plan again", ("deferred_changes",))


class _Output(Shape):
    sensitive: PassedOver = None
    type: PassedOver = None
    value: PassedOver = None


class _Values(Shape):
    root_module: Raw
    outputs: dict[str, _Output] | None = None


class _Module(Shape):
    resources: list[Raw] = field(default_factory=list)
    child_modules: list[Raw] = field(default_factory=list)
    address: str = ""


class _Resource(Shape):
    address: str
    mode: Literal["managed", "data"]
    type: str
    name: str
    values: Raw = None
    tainted: bool = False
    deposed_key: str | None = None
    index: PassedOver = None
    provider_name: PassedOver = None
    schema_version: PassedOver = None
    sensitive_values: PassedOver = None
    depends_on: PassedOver = None
    identity_schema_version: PassedOver = None
    identity: PassedOver = None

    def problems(self) -> Iterator[Problem]:
        """Why it is uncertain whether there is such an ACL."""
        if self.deposed_key is not None:
            yield Problem("an ACL that Terraform has yet to delete; run `terraform apply` first", ("deposed_key",))
        if self.tainted:
            text = "Terraform failed to create this ACL, and will replace it; run `terraform apply` or untaint it first"
            yield Problem(text, ("tainted",))


class _ShownAcl(AclFields):
    """All fields are there. One that is missing will be known only when the plan is applied."""

    id: PassedOver = None


class _Configuration(Shape):
    root_module: Raw
    provider_config: PassedOver = None


class _ResourceConfiguration(Shape):
    address: str
    mode: str
    type: str
    name: str
    provider_config_key: str
    provisioners: PassedOver = None
    expressions: PassedOver = None
    schema_version: PassedOver = None
    count_expression: Raw = None
    for_each_expression: Raw = None
    depends_on: PassedOver = None


class _ModuleCall(Shape):
    module: Raw = None
    source: PassedOver = None
    expressions: PassedOver = None
    count_expression: Raw = None
    for_each_expression: Raw = None
    version_constraint: PassedOver = None
    depends_on: PassedOver = None


class _ModuleConfiguration(Shape):
    resources: list[_ResourceConfiguration] = field(default_factory=list)
    module_calls: dict[str, _ModuleCall] = field(default_factory=dict)
    outputs: PassedOver = None
    variables: PassedOver = None
    actions: PassedOver = None


_ONLY_IN_PLANS = frozenset(_Plan.__struct_fields__) - frozenset(_State.__struct_fields__)
_SHOWN = ("format_version", "values", "planned_values")


def is_shown(document: Fields) -> bool:
    return not fields_of(document).keys().isdisjoint(_SHOWN)


def read_shown(document: Fields, reading: Reading) -> Iterator[Entry]:
    """The ACLs of a state or a plan, of all its modules."""
    shown = _Shown(reading)
    is_faulty = False
    for line, found in _entries(document, shown, reading):
        is_faulty |= isinstance(found, list)
        yield line, found
    if not is_faulty:
        yield from shown.missing()


def _entries(document: Fields, shown: "_Shown", reading: Reading) -> Iterator[Entry]:
    fields = fields_of(document)
    is_plan = not _ONLY_IN_PLANS.isdisjoint(fields)
    try:
        if is_plan:
            plan = read_shape(_Plan, document, reading)
            yield from ((line_of(fields[each.place[-1]]), [each]) for each in plan.problems())
        else:
            read_shape(_State, document, reading)
    except Refused as refused:
        yield from _faults(refused)
    name = "planned_values" if is_plan else "values"
    if name in fields:
        if is_plan and "configuration" in fields:
            yield from shown.learn_configuration(fields["configuration"])
        yield from shown.read(fields[name], (name,))


def _fault_of(resource: _Resource, place: FieldPlace) -> Fault | None:
    return None if resource.values is None else refusal_of_acls_in(resource.values, (*place, "values"))


def _is_single(each: _ResourceConfiguration | _ModuleCall) -> bool:
    return all(one is None or is_null(one) for one in (each.count_expression, each.for_each_expression))


def _faults(refused: Refused) -> Iterator[Entry]:
    yield from ((line, [problem]) for line, problem in refused.faults)


class _Shown:
    """Reads the values of one state or plan."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._configured: dict[FieldPlace, _ResourceConfiguration] | None = None
        """The ACLs of the configuration, by their modules' names and their own; None if the file has none."""
        self._missing: dict[FieldPlace, _ResourceConfiguration] = {}
        """Those that must be among the values, and have not come yet."""

    def learn_configuration(self, value: Value) -> Iterator[Entry]:
        """Yields what is wrong with the configuration."""
        place = ("configuration",)
        configured: dict[FieldPlace, _ResourceConfiguration] = {}
        try:
            root = read_shape(_Configuration, value, self._reading, place).root_module
            faults = list(self._learn(root, (*place, "root_module"), (), configured, is_single=True))
        except Refused as refused:
            faults = list(_faults(refused))
        yield from faults
        # With a fault nothing of the file is taken, and that its resources are unknown would be a second one.
        self._configured = None if faults else configured

    def _learn(
        self,
        value: Value,
        place: FieldPlace,
        path: FieldPlace,
        configured: dict[FieldPlace, _ResourceConfiguration],
        *,
        is_single: bool,
    ) -> Iterator[Entry]:
        """`is_single` says that the module has one instance, whatever the variables are."""
        try:
            module = read_shape(_ModuleConfiguration, value, self._reading, place)
        except Refused as refused:
            yield from _faults(refused)
            return
        for each in module.resources:
            if each.mode == _MANAGED and each.type == KIND:
                configured[*path, each.name] = each
                if is_single and _is_single(each):
                    self._missing[*path, each.name] = each
        for name, call in module.module_calls.items():
            if call.module is not None:
                inside = (*place, "module_calls", name, "module")
                is_single_call = is_single and _is_single(call)
                yield from self._learn(call.module, inside, (*path, name), configured, is_single=is_single_call)

    def missing(self) -> Iterator[Entry]:
        """The ACLs that Terraform will delete, or doesn't know, although the configuration has them."""
        text = "the planned values lack this resource; plan again without -destroy, -refresh-only and -target"
        for path, each in self._missing.items():
            address = "".join(f"module.{name}." for name in path[:-1]) + each.address
            yield each.line, within([Problem(text, ("planned_values",))], address)

    def read(self, values: Value, place: FieldPlace) -> Iterator[Entry]:
        try:
            root = read_shape(_Values, values, self._reading, place).root_module
        except Refused as refused:
            yield from _faults(refused)
        else:
            yield from self._module(root, (*place, "root_module"), (), None)

    def _module(self, value: Value, place: FieldPlace, path: FieldPlace, parent: str | None) -> Iterator[Entry]:
        """`path` are the names of the modules around, `parent` is the address of the next one; None in the root."""
        try:
            module = read_shape(_Module, value, self._reading, place)
        except Refused as refused:
            yield from _faults(refused)
            return
        if parent is not None:
            name = _MODULE_NAME.match(module.address.removeprefix(f"{parent}." if parent else ""))
            if name is None:
                text = f"`{module.address[:MAX_SHOWN]}` is not a module within `{parent[:MAX_SHOWN]}`"
                yield module.line, [Problem(text, (*place, "address"))]
                return
            path = (*path, name[1])
        for each in module.resources:
            yield from self._resource(each, (*place, "resources"), path)
        for each in module.child_modules:
            yield from self._module(each, (*place, "child_modules"), path, module.address)

    def _resource(self, value: Value, place: FieldPlace, path: FieldPlace) -> Iterator[Entry]:
        try:
            resource = read_shape(_Resource, value, self._reading, place)
        except Refused as refused:
            yield from _faults(refused)
            return
        refusal = refusal_of_type(resource.type)
        if resource.type == KIND and resource.mode == _MANAGED:
            yield from self._acl(resource, place, path)
        elif refusal is not None:
            yield resource.line, within([Problem(refusal, (resource.type,))], resource.address)
        elif (fault := _fault_of(resource, place)) is not None:
            yield fault[0], within([fault[1]], resource.address)
        else:
            prefix = "" if resource.mode == _MANAGED else f"{resource.mode}."
            self._reading.passed_over[f"{prefix}{resource.type}"] += 1

    def _acl(self, resource: _Resource, place: FieldPlace, path: FieldPlace) -> Iterator[Entry]:
        self._missing.pop((*path, resource.name), None)
        problems = list(resource.problems())
        if resource.values is None:
            problems.append(Problem("the field is missing", (*place, "values")))
        if problems:
            yield resource.line, within(problems, resource.address)
            return
        try:
            found = read_shape(_ShownAcl, resource.values, self._reading, (*place, "values")).acl()
        except Refused as refused:
            for line, problem in refused.faults:
                yield line, within([problem], resource.address)
            return
        takes = self._takes(resource, path)
        if isinstance(takes, Problem):
            yield resource.line, within([takes], resource.address)
        elif takes:
            yield resource.line, within(found, resource.address) if isinstance(found, list) else found

    def _takes(self, resource: _Resource, path: FieldPlace) -> bool | Problem:
        if self._configured is None:
            return self._reading.takes(Cluster(), resource.line)
        configured = self._configured.get((*path, resource.name))
        if configured is None:
            text = "the plan's configuration has no such resource, so its cluster is unknown"
            return Problem(text, ("configuration",))
        return self._reading.takes(Cluster(configured.provider_config_key), resource.line)
