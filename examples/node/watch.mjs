// Follow the ACLs of the Klamm beside this process: node watch.mjs URL prints every change, with Node.js 20 alone.

const SILENCE_MS = 15_000; // three bookmarks that don't come
const LONGEST_PAUSE_MS = 5_000;
const BEGIN_ANEW = [409, 410]; // another epoch; or what follows the token is not kept any more
const PASSING = [429, 500, 502, 503, 504];

export class RefusedError extends Error {}

/** `acls` by id and `configs` are those of `token`: always of one state, never of half a transaction. */
export class Follower {
  acls = new Map();
  configs = new Map();
  token = null;
  #fresh = { acls: new Map(), configs: new Map() };

  constructor(url, headers = {}) {
    this.url = url;
    this.headers = headers;
  }

  /** Each record once it is applied, without end. Throws RefusedError if this caller may not watch. */
  async *changes() {
    let pauseMs = 100;
    for (;;) {
      const beganAt = performance.now();
      try {
        yield* this.#stream();
      } catch (error) {
        if (error instanceof RefusedError) throw error;
        // It is not there yet, it restarts, or the connection was cut.
        console.error(`${error.cause?.message ?? error.message}; trying again`);
      }
      if (performance.now() - beganAt > LONGEST_PAUSE_MS) pauseMs = 100;
      await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.5 + Math.random() / 2)));
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    }
  }

  async *#stream() {
    const query = new URLSearchParams(this.token === null ? { snapshot: "true" } : { after: this.token });
    const silent = new AbortController();
    const alarm = setTimeout(() => silent.abort(new Error("the stream has said nothing for 15 s")), SILENCE_MS);
    try {
      // Klamm-Epochs: stream and token go on from one epoch of the store to the next.
      const headers = { "klamm-epochs": "1", ...this.headers };
      const reply = await fetch(`${this.url}/v1/watch?${query}`, { headers, signal: silent.signal });
      if (!reply.ok) {
        const told = await reply.text();
        if (BEGIN_ANEW.includes(reply.status)) this.token = null;
        else if (!PASSING.includes(reply.status)) throw new RefusedError(`${reply.status}: ${told}`);
        return;
      }
      let rest = "";
      const decoder = new TextDecoder();
      for await (const chunk of reply.body) {
        alarm.refresh();
        const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
        rest = lines.pop(); // what has no end of line may be cut
        for (const line of lines) yield* this.#take(JSON.parse(line));
      }
    } finally {
      clearTimeout(alarm);
      silent.abort();
    }
  }

  *#take(event) {
    switch (event.type) {
      case "snapshot":
        this.#fresh = { acls: new Map(), configs: new Map() };
        break;
      case "acls":
        for (const acl of event.acls) this.#fresh.acls.set(acl.id, acl);
        break;
      case "configs":
        this.#fresh.configs = new Map(Object.entries(event.configs));
        break;
      case "synced": // until here it may have been cut; now it is whole
        this.acls = this.#fresh.acls;
        this.configs = this.#fresh.configs;
        this.token = event.token;
        break;
      case "transaction":
        for (const record of event.records) this.#apply(record);
        this.token = event.token;
        yield* event.records;
        break;
      case "bookmark":
        this.token = event.token;
        break;
      default: // "end", and types of later versions: nothing to do
    }
  }

  #apply(record) {
    switch (record.kind) {
      case "AccessControlEntryRecord": // a new ACL, or one with another end or owner
        this.acls.set(record.acl.id, record.acl);
        break;
      case "RemoveAccessControlEntryRecord":
        this.acls.delete(record.acl.id);
        break;
      case "ConfigRecord":
        if (record.value === null) this.configs.delete(record.name);
        else this.configs.set(record.name, record.value);
        break;
      default:
    }
  }
}

if (process.argv.length !== 3) {
  console.error("usage: node watch.mjs URL");
  process.exit(2);
}
try {
  for await (const change of new Follower(process.argv[2]).changes()) console.log(JSON.stringify(change));
} catch (refused) {
  console.error(refused.message);
  process.exit(1);
}
