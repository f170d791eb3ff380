/** A client of Klamm: calls by path, bodies and answers typed as openapi.json says. */

import createClient, { type Client, type ClientOptions } from "openapi-fetch";

import type { paths, Problem } from "./schema.js";

export type * from "./schema.js";

/** One Klamm. A call gives `data`, or the `error` that was refused with, and never throws for a refusal. */
export type Klamm = Client<paths>;

export interface KlammOptions extends Omit<ClientOptions, "baseUrl"> {
  /** A caller's token, or what tells it at each request, for tokens that are renewed. */
  token?: string | (() => string | Promise<string>);
}

/** The Klamm that serves at this address, such as `http://127.0.0.1:8080`. */
export function klammAt(baseUrl: string, { token, ...options }: KlammOptions = {}): Klamm {
  const client = createClient<paths>({ baseUrl, ...options });
  if (token !== undefined) {
    client.use({
      async onRequest({ request }) {
        request.headers.set("Authorization", `Bearer ${typeof token === "function" ? await token() : token}`);
        return request;
      },
    });
  }
  return client;
}

/** Whether this is a refusal by Klamm itself (RFC 9457), and not a page of something that stands between. */
export function isProblem(error: unknown): error is Problem {
  return typeof error === "object" && error !== null && "code" in error && "retriable" in error;
}
