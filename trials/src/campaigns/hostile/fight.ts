// What attackers share: what they know, how much of the machine they may use, and how they send
// requests.

import { setTimeout as sleep } from 'node:timers/promises';
import { OCTETS } from '@hers/service';
import type { Dice } from '../cheating/dice.ts';
import { type Answer, Line } from './line.ts';
import { answered, emptyTally, fault, type Tally } from './tally.ts';

export type Access = 'none' | 'wrong' | 'search' | 'write' | 'admin' | 'keeper';

/** What attackers are told. Names of collections, and ids in hexadecimal. */
export interface Spoils {
  readonly url: string;
  readonly seed: number;
  /** How many attackers there are, as a share of the maximum. */
  readonly scale: number;
  readonly bodyBytes: number;
  /** The honest client's collection, which no attacker may change. */
  readonly honest: string;
  /** A collection of the attackers, which is searched and read and never changes. */
  readonly prey: string;
  readonly preyVersion: number;
  /**
   * The only collections of the token that may write, and of the one that may create and delete.
   */
  readonly scratch: string;
  readonly attic: string;
  /** `search` is for all collections, `keeper` is an admin of the prey. */
  readonly tokens: Record<Exclude<Access, 'none' | 'wrong'>, string>;
  /** Encoded queries, in a file: frames. */
  readonly queries: string;
  /** Of large records of the prey; its lists; its blocks. */
  readonly handles: readonly string[];
  readonly lists: readonly string[];
  readonly blocks: readonly string[];
}

export interface Ground extends Spoils {
  readonly host: string;
  readonly port: number;
  readonly api: readonly Operation[];
  readonly query: readonly Uint8Array[];
}

export interface Operation {
  readonly method: string;
  readonly path: string;
  readonly needs: 'open' | 'device' | 'search' | 'write' | 'admin';
  readonly params: readonly { readonly name: string; readonly schema: Schema }[];
  readonly takes: 'nothing' | 'message' | 'octets';
  readonly head?: Schema;
}

export interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly items?: Schema;
  readonly properties?: Record<string, Schema>;
  readonly required?: readonly string[];
}

export interface Attack {
  readonly name: string;
  /** As a share of the time that attacks run alone. */
  readonly weight?: number;
  run(fight: Fight): Promise<void>;
}

/** Of one core, for all attackers together: client and server need the rest. */
const SHARE = 0.5;
const ANSWER_MS = 15_000;

/** Keeps this process from taking more CPU time than it may. */
export class Pace {
  #since = performance.now();
  #before = process.cpuUsage();

  /** Since the beginning, as a share of one core. */
  get share(): number {
    const { user, system } = process.cpuUsage(this.#before);
    return (user + system) / 1000 / (performance.now() - this.#since);
  }

  async turn(): Promise<void> {
    for (;;) {
      const elapsed = performance.now() - this.#since;
      const due = (this.share * elapsed) / SHARE;
      if (due <= elapsed + 20) return;
      await sleep(Math.min(due - elapsed, 500));
    }
  }
}

export interface Asked {
  readonly method?: string;
  readonly path: string;
  readonly access?: Access;
  readonly headers?: readonly string[];
  readonly body?: Buffer;
  /** Its name in reports; by default method and path without names. */
  readonly about?: string;
  /** An answer of 2xx would be wrong. */
  readonly isForbidden?: boolean;
}

export class Fight {
  readonly ground: Ground;
  readonly dice: Dice;
  readonly pace: Pace;
  readonly tally: Tally = emptyTally();
  readonly from: string | undefined;
  /** How long the longest slow connection was held. */
  heldMs = 0;
  #isOver = false;
  readonly #lines = new Set<Line>();
  readonly #ending = new AbortController();

  constructor(ground: Ground, dice: Dice, pace: Pace, from?: string) {
    this.ground = ground;
    this.dice = dice;
    this.pace = pace;
    this.from = from;
  }

  get lines(): number {
    return this.#lines.size;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  end(): void {
    this.#isOver = true;
    this.#ending.abort();
    for (const line of this.#lines) line.destroy();
  }

  async wait(ms: number): Promise<void> {
    if (!this.#isOver) await sleep(ms, undefined, { signal: this.#ending.signal }).catch(() => {});
  }

  /** A connection to the server; undefined, and counted, if it accepts none. */
  async open(isBare = false): Promise<Line | undefined> {
    const { host, port } = this.ground;
    const line = await Line.open({ host, port, from: this.from, isBare });
    if (!line) {
      if (!this.#isOver) this.tally.refused++;
      await this.wait(200);
      return undefined;
    }
    this.#lines.add(line);
    line.onClose(() => this.#lines.delete(line));
    if (this.#isOver) line.destroy();
    return line;
  }

  /** This many, or a share of them. */
  many(count: number): number {
    return Math.max(2, Math.round(count * this.ground.scale));
  }

  /** Repeats something, `many` at a time, until the attack is over. */
  async each(many: number, once: (i: number) => Promise<void>): Promise<void> {
    await Promise.all(
      Array.from({ length: this.many(many) }, async (_, i) => {
        while (!this.#isOver) {
          await this.pace.turn();
          if (!this.#isOver) await once(i);
        }
      }),
    );
  }

  credentials(access: Access): string[] {
    if (access === 'none') return [];
    const token = access === 'wrong' ? `hers_${'0'.repeat(12)}_${'A'.repeat(43)}` : this.ground.tokens[access];
    return [`authorization: Bearer ${token}`];
  }

  head({ method = 'POST', path, access = 'none', headers = [] }: Asked, length?: number): string {
    const own = [
      `host: ${this.ground.host}:${this.ground.port}`,
      ...this.credentials(access),
      ...(length === undefined ? [] : [`content-type: ${OCTETS}`, `content-length: ${length}`]),
    ];
    return `${method} ${path} HTTP/1.1\r\n${[...own, ...headers].join('\r\n')}\r\n\r\n`;
  }

  /** Sends one request, on a new or an open connection, and reads the answer. */
  async ask(asked: Asked, open?: Line): Promise<Answer | undefined> {
    const line = open ?? (await this.open(asked.method === 'HEAD'));
    if (!line) return undefined;
    const { body } = asked;
    line.say(this.head(asked, body?.length));
    if (body) await line.pour(body);
    const answer = await this.hear(line, asked);
    if (!open) line.destroy();
    return answer;
  }

  async hear(
    line: Line,
    { method = 'POST', path, access, about, isForbidden }: Asked,
    ms: number = ANSWER_MS,
  ): Promise<Answer | undefined> {
    this.tally.sent++;
    const answer = await line.answer(ms);
    if (answer) {
      const what = about ?? `${method} ${path.slice(0, 80)} (${access ?? 'none'})`;
      answered(this.tally, answer, what);
      if (isForbidden && answer.status >= 200 && answer.status < 300)
        fault(this.tally, `somebody was let in: ${answer.status} to ${what}`);
    } else if (this.#isOver) this.tally.unanswered++;
    else if (line.isClosed) this.tally.reset++;
    else this.tally.unanswered++;
    return answer;
  }

  /** Holds a slow connection until the server closes it, or the attack is over. */
  async hold(line: Line, everyMs: number, once: () => void): Promise<void> {
    const since = performance.now();
    while (!line.isClosed && !this.#isOver) {
      once();
      await this.wait(everyMs);
    }
    this.heldMs = Math.max(this.heldMs, performance.now() - since);
  }

  get collection(): Record<'honest' | 'prey' | 'scratch' | 'attic', string> {
    const path = (name: string) => `/v1/collections/${name}`;
    const { honest, prey, scratch, attic } = this.ground;
    return { honest: path(honest), prey: path(prey), scratch: path(scratch), attic: path(attic) };
  }
}

/** Messages in the wire format, with any head. */
export function messageOf(head: Uint8Array | string, parts: readonly Uint8Array[]): Buffer {
  const frames = [Buffer.from(head), ...parts];
  return Buffer.concat(
    frames.flatMap((bytes) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    }),
  );
}
