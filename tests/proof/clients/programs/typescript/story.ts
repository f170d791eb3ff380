// A user's program around the generated TypeScript client: story.js URL_OF_A_SERVICE URL_OF_ONE_WITHOUT_ITS_STORE
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import {
  type AclBinding,
  type Action,
  type AuthorizableRequestContext,
  isProblem,
  type Klamm,
  klammAt,
  type Problem,
} from "klamm-client";

const ADMIN: AuthorizableRequestContext = { principal: "User:admin", client_address: "127.0.0.1" };
const CAROL: AuthorizableRequestContext = { principal: "User:carol", client_address: "10.1.2.3", correlation_id: 7 };
const READ: Action = { operation: "READ", resource_type: "TOPIC", resource_name: "parcels.sent" };
const WRITE: Action = { ...READ, operation: "WRITE" };

function carols(operation: AclBinding["operation"]): AclBinding {
  return {
    resource_type: "TOPIC",
    resource_name: "parcels.",
    pattern_type: "PREFIXED",
    principal: CAROL.principal,
    operation,
    permission_type: "ALLOW",
  };
}

function got<T>(answer: { data?: T; error?: unknown }): T {
  assert.ok(answer.data !== undefined, JSON.stringify(answer.error));
  return answer.data;
}

function refused(answer: { error?: unknown; response: Response }, status: number, code: string, retriable = false): Problem {
  assert.ok(isProblem(answer.error), JSON.stringify(answer));
  const { error, response } = answer;
  assert.deepEqual([response.status, error.status, error.code, error.retriable], [status, status, code, retriable]);
  return error;
}

function ask(klamm: Klamm, actions: Action[], at_least?: string) {
  return klamm.POST("/v1/authorize", {
    body: { context: CAROL, actions, ...(at_least !== undefined && { at_least }) },
    signal: AbortSignal.timeout(60_000),
  });
}

async function notReady(closed: Klamm) {
  const answer = await ask(closed, [READ]);
  refused(answer, 503, "AUTHORIZER_NOT_READY", true);
  assert.ok(Number(answer.response.headers.get("retry-after")) >= 1);
  const admins = got(await closed.POST("/v1/authorize", { body: { context: ADMIN, actions: [READ] } }));
  assert.deepEqual([admins.results, admins.token], [["ALLOWED"], null]);
  assert.equal(got(await closed.GET("/v1/acls/count")).acl_count, -1);
}

async function created(klamm: Klamm): Promise<string> {
  const bindings = [carols("READ"), carols("DESCRIBE"), carols("ANY")];
  const answer = got(await klamm.POST("/v1/acls", { body: { context: ADMIN, bindings } }));
  assert.deepEqual(answer.results.map((result) => result.created), [true, true, false]);
  assert.deepEqual(answer.results.map((result) => result.code), ["NONE", "NONE", "INVALID_REQUEST"]);
  const id = answer.results[0]?.id;
  assert.ok(id);
  assert.equal(got(await klamm.GET("/v1/acls/{id}", { params: { path: { id } } })).operation, "READ");
  assert.ok(answer.token);
  return answer.token;
}

async function decided(klamm: Klamm, token: string) {
  assert.deepEqual(got(await ask(klamm, [READ, WRITE], token)).results, ["ALLOWED", "DENIED"]);
  const [epoch, offset] = token.split(":");
  refused(await ask(klamm, [READ], `${epoch}:${Number(offset) + 1000}`), 503, "OFFSET_NOT_AVAILABLE", true);
  refused(await ask(klamm, [READ], `${randomUUID()}:1`), 409, "TOKEN_EPOCH_MISMATCH");

  const anywhere = { context: CAROL, operation: "READ", resource_type: "TOPIC" } as const;
  assert.equal(got(await klamm.POST("/v1/authorize-by-resource-type", { body: anywhere })).result, "ALLOWED");
  const groups = { context: CAROL, groups: ["billing"] };
  assert.deepEqual(got(await klamm.POST("/v1/list-groups", { body: groups })).groups, []);
}

async function operationsTold(klamm: Klamm) {
  const resources = ["parcels.sent", "invoices"].map((resource_name) => ({ resource_type: "TOPIC", resource_name }));
  const body = { context: CAROL, resources };
  const [mine, other] = got(await klamm.POST("/v1/authorized-operations", { body })).results;
  assert.deepEqual([mine?.authorized_operations, mine?.operations], [(1 << 3) | (1 << 8), ["READ", "DESCRIBE"]]);
  assert.deepEqual([other?.code, other?.authorized_operations], ["TOPIC_AUTHORIZATION_FAILED", -(2 ** 31)]);
}

async function explained(klamm: Klamm) {
  const [yes, no] = got(await klamm.POST("/v1/explain", { body: { context: CAROL, actions: [READ, WRITE] } })).results;
  assert.deepEqual([yes?.result, yes?.acl?.resource_name], ["ALLOWED", "parcels."]);
  assert.deepEqual([no?.result, no?.acl, no?.smallest_acl?.operation], ["DENIED", null, "WRITE"]);
}

async function searched(klamm: Klamm) {
  const found: string[] = [];
  let cursor: string | null = null;
  do {
    const body = { context: ADMIN, filter: { principal: CAROL.principal }, limit: 1, cursor };
    const page: { acls: { operation: string }[]; next_cursor: string | null } = got(
      await klamm.POST("/v1/acls/search", { body }),
    );
    found.push(...page.acls.map((acl) => acl.operation));
    cursor = page.next_cursor;
  } while (cursor !== null);
  assert.deepEqual(found, ["READ", "DESCRIBE"]);
}

async function refusalsTold(klamm: Klamm) {
  const forbidden = await klamm.POST("/v1/acls", { body: { context: CAROL, bindings: [carols("ALL")] } });
  assert.equal(refused(forbidden, 403, "CLUSTER_AUTHORIZATION_FAILED").error_code, 31);
  const nobodys = { params: { path: { id: randomUUID() } } };
  refused(await klamm.GET("/v1/acls/{id}", nobodys), 404, "RESOURCE_NOT_FOUND");
  const wrong = await klamm.POST("/v1/acls/search", { body: { context: ADMIN, filter: {}, limit: 0 } });
  const fields = refused(wrong, 400, "INVALID_REQUEST").errors ?? [];
  assert.deepEqual(fields.map((field) => field.pointer), ["/limit"]);
}

async function deleted(klamm: Klamm) {
  const body = { context: ADMIN, filters: [{ principal: CAROL.principal }] };
  const answer = got(await klamm.POST("/v1/acls/delete", { body }));
  assert.deepEqual(answer.results[0]?.matches.map((match) => match.operation).sort(), ["DESCRIBE", "READ"]);
  assert.ok(answer.token);
  assert.deepEqual(got(await ask(klamm, [READ], answer.token)).results, ["DENIED"]);
}

const [openUrl = "", closedUrl = ""] = process.argv.slice(2);
await notReady(klammAt(closedUrl));
const klamm = klammAt(openUrl, { token: async () => "of-no-meaning-without-callers" });
const token = await created(klamm);
await decided(klamm, token);
await operationsTold(klamm);
await explained(klamm);
await searched(klamm);
await refusalsTold(klamm);
await deleted(klamm);
console.log("all right");
