// A connection to NATS: publish, subscribe, request and reply, of its text protocol
// (docs.nats.io/reference/reference-protocols/nats-protocol). It connects again by itself, to
// whichever server of the list answers. What was on its way then is lost, and its caller hears so.

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { HersError } from '@hers/service';

export interface NatsMessage {
  readonly subject: string;
  readonly payload: Uint8Array;
  /** The status of an answer that has no payload, such as 503: nobody listens. */
  readonly status: string | undefined;
}

export interface NatsOptions {
  /** `nats://user:password@host:4222` each, or `tls://…`. */
  readonly servers: readonly string[];
  /** PEM, for TLS: who signs the servers, and who this node is. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string } | undefined;
}

const DEFAULT_PORT = 4222;
const CONNECT_MS = 2_000;
const PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
/** A server that does not answer a ping for so long is gone. */
const PING_MS = 2_000;
const MAX_CONTROL_LINE = 4096;
/** A message has 1 MiB at most, and comes as base64 in a document of JSON. */
const MAX_MESSAGE = 2 ** 22;
const LINE_END = Buffer.from('\r\n');

type Listener = (message: NatsMessage) => void;

export class NatsConnection {
  readonly #options: NatsOptions;
  readonly #inbox = `_INBOX.${randomBytes(12).toString('hex')}`;
  readonly #subscriptions = new Map<number, { readonly subject: string; readonly listener: Listener }>();
  readonly #waiting = new Map<string, PromiseWithResolvers<NatsMessage>>();
  #socket: Socket | undefined;
  #next = 0;
  #requests = 0;
  #closed = false;
  #connecting: Promise<void> | undefined;
  #pinger: NodeJS.Timeout | undefined;
  #unanswered = 0;
  /** Why the last attempt to connect failed. */
  #why = '';

  constructor(options: NatsOptions) {
    this.#options = options;
    this.#subscribe(`${this.#inbox}.*`, (message) => {
      const waiting = this.#waiting.get(message.subject);
      this.#waiting.delete(message.subject);
      waiting?.resolve(message);
    });
    void this.#connect();
  }

  /** Tries the servers in turn until one answers. */
  #connect(): Promise<void> {
    this.#connecting ??= (async () => {
      const first = Math.floor(Math.random() * this.#options.servers.length);
      for (let attempt = 0; !this.#closed; attempt++) {
        const { servers } = this.#options;
        try {
          await this.#open(new URL(servers[(first + attempt) % servers.length]));
          return;
        } catch (error) {
          this.#why = `: ${(error as Error).message}`;
          const wait = Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** Math.floor(attempt / servers.length));
          await new Promise((resolve) => setTimeout(resolve, wait).unref());
        }
      }
    })().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #open(url: URL): Promise<void> {
    const { hostname: host } = url;
    let socket: Socket = connectTcp({ host, port: Number(url.port || DEFAULT_PORT), noDelay: true });
    socket.unref();
    const parser = new Parser();
    const timer = setTimeout(() => socket.destroy(new Error('no answer')), CONNECT_MS);
    try {
      const info = await firstEvent(socket, parser, (event) => (event.kind === 'info' ? event.info : undefined));
      if (url.protocol === 'tls:' || info.tls_required) {
        socket.removeAllListeners('data');
        const plain = socket;
        socket = connectTls({ socket: plain, host, ...(isIP(host) ? {} : { servername: host }), ...this.#options.tls });
        socket.unref();
        await once(socket, 'secureConnect');
      }
      const login = url.username
        ? { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) }
        : {};
      const hello = { verbose: false, pedantic: false, headers: true, no_responders: true, lang: 'hers', version: '1' };
      socket.write(`CONNECT ${JSON.stringify({ ...hello, ...login, protocol: 1 })}\r\nPING\r\n`);
      await firstEvent(socket, parser, (event) => event.kind === 'pong' || undefined);
    } catch (error) {
      socket.destroy();
      throw error;
    } finally {
      clearTimeout(timer);
    }
    if (this.#closed) {
      socket.destroy();
      return;
    }
    socket.on('data', (bytes) => {
      try {
        for (const event of parser.push(bytes)) this.#take(event);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    const lost = () => {
      if (this.#socket !== socket) return;
      this.#socket = undefined;
      clearInterval(this.#pinger);
      this.#fail('the connection to NATS was lost');
      if (!this.#closed) void this.#connect();
    };
    socket.on('error', () => {});
    socket.on('close', lost);
    this.#socket = socket;
    for (const [id, { subject }] of this.#subscriptions) socket.write(`SUB ${subject} ${id}\r\n`);
    this.#unanswered = 0;
    this.#pinger = setInterval(() => {
      if (++this.#unanswered > 2) socket.destroy();
      else socket.write('PING\r\n');
    }, PING_MS).unref();
  }

  #fail(why: string): void {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(new HersError('UNAVAILABLE', why));
  }

  #take(event: Event): void {
    if (event.kind === 'ping') this.#socket?.write('PONG\r\n');
    else if (event.kind === 'pong') this.#unanswered = 0;
    else if (event.kind === 'message') this.#subscriptions.get(event.id)?.listener(event.message);
    else if (event.kind === 'error' && !/permissions violation/i.test(event.text)) this.#socket?.destroy();
  }

  #subscribe(subject: string, listener: Listener): number {
    const id = ++this.#next;
    this.#subscriptions.set(id, { subject, listener });
    this.#socket?.write(`SUB ${subject} ${id}\r\n`);
    return id;
  }

  subscribe(subject: string, listener: Listener): () => void {
    const id = this.#subscribe(subject, listener);
    return () => {
      this.#subscriptions.delete(id);
      this.#socket?.write(`UNSUB ${id}\r\n`);
    };
  }

  /** Lost if there is no connection. */
  publish(subject: string, payload: Uint8Array, headers: Record<string, string> = {}, reply = ''): void {
    const socket = this.#socket;
    if (!socket) return;
    const names = Object.entries(headers);
    const head =
      names.length === 0
        ? Buffer.alloc(0)
        : Buffer.from(`NATS/1.0\r\n${names.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`);
    const target = `${subject}${reply === '' ? '' : ` ${reply}`}`;
    const line =
      head.length === 0
        ? `PUB ${target} ${payload.length}\r\n`
        : `HPUB ${target} ${head.length} ${head.length + payload.length}\r\n`;
    socket.write(Buffer.concat([Buffer.from(line), head, payload, LINE_END]));
  }

  /** UNAVAILABLE if nobody answers in time, or there is no connection. */
  async request(
    subject: string,
    payload: Uint8Array,
    { headers = {}, timeoutMs }: { readonly headers?: Record<string, string>; readonly timeoutMs: number },
  ): Promise<Uint8Array> {
    if (this.#closed) throw new HersError('CLOSED', 'the connection to NATS is closed');
    if (!this.#socket) throw new HersError('UNAVAILABLE', `NATS cannot be reached${this.#why}`);
    const reply = `${this.#inbox}.${++this.#requests}`;
    const waiting = Promise.withResolvers<NatsMessage>();
    this.#waiting.set(reply, waiting);
    const timer = setTimeout(() => {
      this.#waiting.delete(reply);
      waiting.reject(new HersError('UNAVAILABLE', 'NATS does not answer'));
    }, timeoutMs);
    this.publish(subject, payload, headers, reply);
    try {
      const { payload: answer, status } = await waiting.promise;
      if (status === '503') throw new HersError('UNAVAILABLE', 'NATS has no JetStream that answers');
      return answer;
    } finally {
      clearTimeout(timer);
    }
  }

  get isOpen(): boolean {
    return this.#socket !== undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#pinger);
    this.#fail('the connection to NATS is closed');
    this.#socket?.destroy();
    this.#socket = undefined;
  }
}

type Event =
  | { readonly kind: 'info'; readonly info: { readonly tls_required?: boolean } }
  | { readonly kind: 'ping' | 'pong' | 'ok' }
  | { readonly kind: 'error'; readonly text: string }
  | { readonly kind: 'message'; readonly id: number; readonly message: NatsMessage };

function firstEvent<T>(socket: Socket, parser: Parser, pick: (event: Event) => T | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (error: Error) => {
      socket.off('data', take);
      reject(error);
    };
    const take = (bytes: Buffer) => {
      try {
        for (const event of parser.push(bytes)) {
          if (event.kind === 'error') throw new Error(event.text);
          const found = pick(event);
          if (found === undefined) continue;
          socket.off('data', take);
          socket.off('error', end);
          resolve(found);
          return;
        }
      } catch (error) {
        end(error as Error);
      }
    };
    socket.on('data', take);
    socket.once('error', end);
    socket.once('close', () => end(new Error('closed')));
  });
}

class Parser {
  #rest: Buffer = Buffer.alloc(0);

  push(bytes: Buffer): Event[] {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const events: Event[] = [];
    for (let event = this.#next(); event; event = this.#next()) events.push(event);
    return events;
  }

  #next(): Event | undefined {
    const end = this.#rest.indexOf(LINE_END);
    if (end < 0) {
      if (this.#rest.length > 16 * MAX_CONTROL_LINE) throw new Error('this is not NATS');
      return undefined;
    }
    const line = this.#rest.toString('utf8', 0, end);
    const [verb = '', ...words] = line.split(/\s+/);
    let after = end + 2;
    let event: Event;
    switch (verb.toUpperCase()) {
      case 'MSG':
      case 'HMSG': {
        const hasHead = verb.length === 4;
        const total = Number(words.at(-1));
        const headBytes = hasHead ? Number(words.at(-2)) : 0;
        const areSizes = [total, headBytes].every((size) => Number.isInteger(size) && size >= 0);
        if (!areSizes || headBytes > total || total > MAX_MESSAGE) throw new Error('NATS sends a message of no size');
        if (this.#rest.length < after + total + 2) return undefined;
        const head = this.#rest.toString('utf8', after, after + headBytes);
        const payload = new Uint8Array(this.#rest.subarray(after + headBytes, after + total));
        const status = /^NATS\/1\.0\s+(\d{3})/.exec(head)?.[1];
        event = { kind: 'message', id: Number(words[1]), message: { subject: words[0], payload, status } };
        after += total + 2;
        break;
      }
      case 'INFO':
        event = { kind: 'info', info: JSON.parse(line.slice(5)) };
        break;
      case 'PING':
        event = { kind: 'ping' };
        break;
      case 'PONG':
        event = { kind: 'pong' };
        break;
      case '+OK':
        event = { kind: 'ok' };
        break;
      case '-ERR':
        event = { kind: 'error', text: line.slice(5) };
        break;
      default:
        throw new Error(`NATS says ${JSON.stringify(line.slice(0, 80))}`);
    }
    this.#rest = this.#rest.subarray(after);
    return event;
  }
}
