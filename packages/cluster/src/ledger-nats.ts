// The ledger on NATS with JetStream: one stream, replicated by its own consensus, with a subject
// for each topic. Entries are read from the leader of the stream, one by one.
//
// Entries are published on the condition that the last of the subject has a sequence number. That
// alone does not make an append atomic: servers check it before they agree on the order, and let
// two of the same moment pass (nats-server issue 4320, to version 2.9.20) or two around the
// election of a leader (issue 8469). What does is the order itself. Every entry names the one that
// it follows, and counts only if that is the last before it that counts. So everybody who reads
// agrees on which of two came first, and whoever appends reads back whether it was theirs.
//
// Watching is a plain subscription to a subject outside of the stream, to which whoever has
// appended publishes. It says only that something is new: what it is, the stream says.

import { HersError } from '@hers/service';
import { isCode, isObject } from './arguments.ts';
import { LEDGER_MS, type Ledger, type LedgerEntry, staleEntry } from './ledger.ts';
import { NatsConnection, type NatsOptions } from './nats.ts';

export interface NatsLedgerOptions extends NatsOptions {
  /** Tells clusters apart that share a NATS; `hers` by default. */
  readonly cluster?: string | undefined;
  /** Servers that keep the stream: 3 by default, 1 where NATS is a single server. */
  readonly replicas?: number | undefined;
}

const START_MS = 60_000;
const REQUEST_MS = 2_000;
const PAUSE_MS = 100;

const WRONG_LAST_SEQUENCE = 10071;
const NO_MESSAGE = 10037;
const NO_STREAM = 10059;
const NAME_IN_USE = 10058;
/** A cluster of NATS that is not complete yet. */
const NO_PEERS = 10005;

/** The header that names the position of the entry that this one follows. */
const AFTER = 'Hers-After';

interface Reply {
  readonly error?: { readonly code: number; readonly err_code?: number; readonly description?: string };
  readonly message?: { readonly seq: number; readonly hdrs?: string; readonly data?: string };
}

/** The position that something follows which is no entry of the ledger. */
const NOBODYS = -1;

/** An entry of the stream, whether it counts or not. */
interface Written extends LedgerEntry {
  readonly after: number;
}

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

export async function openNatsLedger(options: NatsLedgerOptions): Promise<NatsLedger> {
  const ledger = new NatsLedger(options);
  try {
    await ledger.begin(START_MS);
    return ledger;
  } catch (error) {
    await ledger.close();
    throw error;
  }
}

export class NatsLedger implements Ledger {
  readonly #nats: NatsConnection;
  readonly #stream: string;
  readonly #said: string;
  readonly #replicas: number;
  #closed = false;

  /** Use `openNatsLedger`, which makes the stream, or `begin` later. */
  constructor({ cluster = 'hers', replicas = 3, ...nats }: NatsLedgerOptions) {
    if (!/^[A-Za-z0-9_-]{1,32}$/.test(cluster))
      throw new HersError('INVALID_ARGUMENT', 'the name of a cluster has letters, digits, - and _ alone');
    this.#nats = new NatsConnection(nats);
    this.#stream = `${cluster}-ledger`;
    this.#said = `${cluster}-said`;
    this.#replicas = replicas;
  }

  /**
   * Makes the stream where there is none, and waits until it can be read, within this time. Servers
   * that have just started elect a leader of all of them first, and then one of the stream.
   */
  async begin(withinMs: number): Promise<void> {
    const config = {
      name: this.#stream,
      subjects: [`${this.#stream}.>`],
      retention: 'limits',
      storage: 'file',
      discard: 'old',
      num_replicas: this.#replicas,
      max_msg_size: 2 ** 20,
      // An older leader must not answer for the newest entry.
      allow_direct: false,
      deny_delete: false,
      deny_purge: false,
    };
    const make = async () => {
      const { error } = await this.#api(`STREAM.CREATE.${this.#stream}`, config);
      // A stream that is there already, with other settings that an operator gave it, is fine.
      if (error && error.err_code !== NAME_IN_USE) throw refusal(error);
      // A stream is made before it has a leader, and only the leader answers this.
      const probe = { last_by_subj: `${this.#stream}.>` };
      const { error: unread } = await this.#api(`STREAM.MSG.GET.${this.#stream}`, probe);
      if (unread && unread.err_code !== NO_MESSAGE) throw refusal(unread);
    };
    try {
      await this.#retry(withinMs, make);
    } catch (error) {
      if (this.#closed || !isUnavailable(error)) throw error;
      throw new HersError(
        'UNAVAILABLE',
        `the ledger was not ready within ${Math.round(withinMs / 1000)} seconds (${error.message}); see that most servers of NATS run, with JetStream`,
      );
    }
  }

  async #api(call: string, body: unknown): Promise<Reply> {
    const answer = await this.#nats.request(`$JS.API.${call}`, json(body), { timeoutMs: REQUEST_MS });
    return replyIn(answer);
  }

  /**
   * Calls `work` until it succeeds, or fails in another way than by an engine that does not answer.
   */
  async #retry<T>(withinMs: number, work: () => Promise<T>): Promise<T> {
    const until = performance.now() + withinMs;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isUnavailable(error) || this.#closed || performance.now() > until) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
  }

  append(topic: string, after: number, content: Uint8Array): Promise<number> {
    const subject = `${this.#stream}.${topic}`;
    // Of this topic, whether it counts or not.
    let last = after;
    let unsure = false;
    /** The position of this entry, if it is the one that came first; undefined if none has. */
    const placed = async () => {
      const { first, seen } = await this.#following(topic, after);
      last = Math.max(last, seen);
      if (!first) return undefined;
      if (Buffer.compare(first.content, content) !== 0) throw staleEntry(topic);
      return this.#tell(first);
    };
    return this.#retry(LEDGER_MS, async () => {
      // An attempt whose answer was lost may have succeeded.
      const earlier = unsure ? await placed() : undefined;
      if (earlier !== undefined) return earlier;
      unsure = true;
      const headers = { [AFTER]: String(after), 'Nats-Expected-Last-Subject-Sequence': String(last) };
      const answer = await this.#nats.request(subject, content, { headers, timeoutMs: REQUEST_MS });
      const { error } = replyIn(answer);
      if (error && error.err_code !== WRONG_LAST_SEQUENCE) throw refusal(error);
      const position = await placed();
      // Entries that do not count are in the way, or a server that lags has answered.
      if (position === undefined) throw new HersError('UNAVAILABLE', 'NATS does not have the entry yet; try again');
      return position;
    });
  }

  /** The entry that counts next after a position, and the last one that was looked at for it. */
  async #following(topic: string, after: number): Promise<{ readonly first?: LedgerEntry; readonly seen: number }> {
    for (let seen = after; ; ) {
      const entry = await this.#get(topic, { seq: seen + 1 });
      if (!entry) return { seen };
      seen = entry.position;
      if (entry.after >= after) return { first: entry, seen };
    }
  }

  #tell({ topic, position }: Omit<LedgerEntry, 'content'>): number {
    this.#nats.publish(`${this.#said}.${topic}`, new Uint8Array(0));
    return position;
  }

  async #get(topic: string, which: { readonly seq: number } | 'last'): Promise<Written | undefined> {
    const subject = `${this.#stream}.${topic}`;
    const wanted = which === 'last' ? { last_by_subj: subject } : { ...which, next_by_subj: subject };
    const { error, message } = await this.#api(`STREAM.MSG.GET.${this.#stream}`, wanted);
    if (error?.err_code === NO_MESSAGE) return undefined;
    if (error) throw refusal(error);
    const head = Buffer.from(message?.hdrs ?? '', 'base64').toString();
    const named = head
      .split('\r\n')
      .find((line) => line.startsWith(`${AFTER}: `))
      ?.slice(AFTER.length + 2);
    if (!message || !Number.isSafeInteger(message.seq)) throw nonsense();
    // What names none before it was not appended by a node, and counts for nobody.
    const isEntry = named !== undefined && /^\d{1,15}$/.test(named) && Number(named) < message.seq;
    const after = isEntry ? Number(named) : NOBODYS;
    const content = new Uint8Array(Buffer.from(message.data ?? '', 'base64'));
    return { topic, position: message.seq, content, after };
  }

  async *read(topic: string, after: number | 'newest'): AsyncGenerator<LedgerEntry> {
    if (after !== 'newest') {
      for (let at = after; ; ) {
        const { first } = await this.#following(topic, at);
        if (!first) return;
        yield first;
        at = first.position;
      }
    }
    const last = await this.#get(topic, 'last');
    if (!last) return;
    // What it was appended to counts; of those behind it, the last that does is the newest.
    for (let at = Math.max(0, last.after); ; ) {
      const { first } = await this.#following(topic, at);
      // Nothing there was appended by a node.
      if (!first && last.after === NOBODYS) return;
      if (!first) throw new HersError('UNAVAILABLE', 'NATS does not have an entry that it had; try again');
      at = first.position;
      if (at >= last.position || !(await this.#following(topic, at)).first) {
        yield first;
        return;
      }
    }
  }

  watch(onAppend: (topic: string) => void): () => void {
    return this.#nats.subscribe(`${this.#said}.>`, ({ subject }) => onAppend(subject.slice(this.#said.length + 1)));
  }

  async trim(topic: string, keep: number): Promise<void> {
    const entries = await Array.fromAsync(this.read(topic, keep === 1 ? 'newest' : 0));
    // The first that stays has to count: what was before it, nobody can look up any more.
    const first = entries.at(-keep);
    // There is nothing before the first of the stream, and "up to the first" would mean all of it.
    if (!first || first.position <= 1) return;
    const purge = { filter: `${this.#stream}.${topic}`, seq: first.position };
    const { error } = await this.#api(`STREAM.PURGE.${this.#stream}`, purge);
    if (error) throw refusal(error);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#nats.close();
  }
}

const nonsense = () => new HersError('UNAVAILABLE', 'NATS gave an answer that makes no sense; try again');

function replyIn(answer: Uint8Array): Reply {
  try {
    const reply = JSON.parse(new TextDecoder().decode(answer));
    if (isObject(reply)) return reply;
  } catch {}
  throw nonsense();
}

function isUnavailable(error: unknown): error is HersError {
  return isCode(error, 'UNAVAILABLE');
}

/** Most refusals pass: a leader is being elected, a server is starting. */
function refusal({ code, err_code, description }: NonNullable<Reply['error']>): HersError {
  const passes = code >= 500 || err_code === NO_STREAM || err_code === NO_PEERS;
  return new HersError(
    passes ? 'UNAVAILABLE' : 'STORAGE',
    `NATS refuses: ${description ?? code}${passes ? '; try again' : '; see docs/cluster.md for its configuration'}`,
  );
}
