// What an old client makes of a newer service's answers: future.js URL
import { isProblem, klammAt } from "klamm-client";

const klamm = klammAt(process.argv[2] ?? "");
const context = { principal: "User:alice", client_address: "10.1.2.3" };
const action = { operation: "READ", resource_type: "TOPIC", resource_name: "orders" };

const decisions = await klamm.POST("/v1/authorize", { body: { context, actions: [action, action] } });
console.log("allowed:", (decisions.data?.results ?? []).map((result) => result === "ALLOWED").join(" "));

const anywhere = { context, operation: "READ", resource_type: "TOPIC" };
const byType = await klamm.POST("/v1/authorize-by-resource-type", { body: anywhere });
console.log("allowed anywhere:", byType.data?.result === "ALLOWED");

const resources = [{ resource_type: "TOPIC", resource_name: "orders" }];
const told = await klamm.POST("/v1/authorized-operations", { body: { context, resources } });
const first = told.data?.results[0];
console.log("operations:", first?.authorized_operations, first?.operations.join(" "));

const explained = await klamm.POST("/v1/explain", { body: { context, actions: [action] } });
const why = explained.data?.results[0];
const miss = why?.near_misses[0];
console.log("explained:", why?.rule, miss?.missed[0], miss?.acl.operation, why?.smallest_acl === null);

const listed = await klamm.POST("/v1/acls/search", { body: { context, filter: {} } });
const acl = listed.data?.acls[0];
console.log("acl:", acl?.resource_type, acl?.pattern_type, acl?.operation, acl?.permission_type);

const refused = await klamm.POST("/v1/acls", { body: { context, bindings: [] } });
console.log("problem:", isProblem(refused.error) && `${refused.error.code} ${refused.error.retriable}`);
