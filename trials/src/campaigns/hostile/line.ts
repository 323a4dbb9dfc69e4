// A connection to a server that can send anything: fetch and http.request send nothing malformed.

import { connect, type Socket } from 'node:net';

export interface Answer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  /** The first bytes of the body. */
  readonly body: Buffer;
  /** How long the body was. */
  readonly bytes: number;
  /** It arrived completely. */
  readonly isWhole: boolean;
}

/** Enough for any error. */
const KEPT_BYTES = 2 ** 16;
const PIECE_BYTES = 2 ** 18;
const EMPTY = Buffer.alloc(0);

/** Parses answers of HTTP/1.1 from bytes that arrive in pieces. */
class Answers {
  readonly #onAnswer: (answer: Answer) => void;
  /** The next answer has no body, whatever its head says, because it answers a HEAD. */
  readonly #isBare: boolean;
  #waiting: Buffer = EMPTY;
  #status = 0;
  #headers = new Map<string, string>();
  #body: Buffer[] = [];
  #kept = 0;
  #bytes = 0;
  #state: 'head' | 'length' | 'size' | 'chunk' | 'gap' | 'last' | 'close' = 'head';
  #left = 0;

  constructor(onAnswer: (answer: Answer) => void, isBare: boolean) {
    this.#onAnswer = onAnswer;
    this.#isBare = isBare;
  }

  take(bytes: Buffer): void {
    for (let rest = bytes; rest.length > 0; ) {
      if (this.#state === 'length' || this.#state === 'chunk' || this.#state === 'close') {
        const use = this.#state === 'close' ? rest.length : Math.min(this.#left, rest.length);
        this.#keep(rest.subarray(0, use));
        rest = rest.subarray(use);
        this.#left -= use;
        if (this.#left === 0 && this.#state === 'length') this.#finish(true);
        else if (this.#left === 0 && this.#state === 'chunk') this.#state = 'gap';
        continue;
      }
      const whole = this.#waiting.length > 0 ? Buffer.concat([this.#waiting, rest]) : rest;
      const mark = this.#state === 'head' ? '\r\n\r\n' : '\r\n';
      const at = whole.indexOf(mark);
      if (at < 0) {
        this.#waiting = Buffer.from(whole);
        return;
      }
      this.#waiting = EMPTY;
      rest = whole.subarray(at + mark.length);
      this.#line(whole.toString('latin1', 0, at));
    }
  }

  #line(text: string): void {
    if (this.#state === 'head') {
      this.#head(text);
    } else if (this.#state === 'gap') {
      this.#state = 'size';
    } else if (this.#state === 'last') {
      this.#finish(true);
    } else {
      this.#left = Number.parseInt(text, 16);
      this.#state = this.#left > 0 ? 'chunk' : 'last';
    }
  }

  #head(text: string): void {
    const [first, ...lines] = text.split('\r\n');
    const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1] ?? 0);
    if (status >= 100 && status < 200 && status !== 101) return; // an informational answer: the final one is still to come
    this.#status = status;
    this.#headers = new Map(
      lines.map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
      }),
    );
    const length = this.#headers.get('content-length');
    if (this.#isBare || status === 204 || status === 304) {
      this.#finish(true);
    } else if (this.#headers.get('transfer-encoding')?.includes('chunked')) {
      this.#state = 'size';
    } else if (length !== undefined) {
      this.#left = Number(length);
      this.#state = 'length';
      if (this.#left === 0) this.#finish(true);
    } else this.#state = 'close';
  }

  #keep(bytes: Buffer): void {
    this.#bytes += bytes.length;
    const use = Math.min(bytes.length, KEPT_BYTES - this.#kept);
    if (use <= 0) return;
    this.#body.push(Buffer.from(bytes.subarray(0, use)));
    this.#kept += use;
  }

  #finish(isWhole: boolean): void {
    const [status, headers, bytes] = [this.#status, this.#headers, this.#bytes];
    const body = Buffer.concat(this.#body);
    this.#state = 'head';
    this.#body = [];
    this.#kept = 0;
    this.#bytes = 0;
    this.#onAnswer({ status, headers, body, bytes, isWhole });
  }

  end(): void {
    if (this.#state !== 'head') this.#finish(this.#state === 'close');
  }
}

export interface LineOptions {
  readonly host: string;
  readonly port: number;
  /** The address it connects from. */
  readonly from?: string | undefined;
  /** All requests are HEAD. */
  readonly isBare?: boolean;
}

export class Line {
  readonly #socket: Socket;
  readonly #answers: Answers;
  readonly #heard: Answer[] = [];
  #wake: (() => void)[] = [];
  bytes = 0;

  private constructor(socket: Socket, isBare: boolean) {
    this.#socket = socket;
    this.#answers = new Answers((answer) => this.#heard.push(answer), isBare);
    socket.setNoDelay(true);
    socket.on('data', (bytes) => {
      this.bytes += bytes.length;
      this.#answers.take(bytes as Buffer);
      this.#stir();
    });
    socket.on('drain', () => this.#stir());
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#answers.end();
      this.#stir();
    });
  }

  /** Undefined if the server accepts no connection. */
  static open({ host, port, from, isBare = false }: LineOptions): Promise<Line | undefined> {
    return new Promise((resolve) => {
      const socket = connect({ host, port, ...(from === undefined ? {} : { localAddress: from }) });
      socket.once('error', () => resolve(undefined));
      socket.once('connect', () => resolve(new Line(socket, isBare)));
    });
  }

  get isClosed(): boolean {
    return this.#socket.closed || this.#socket.destroyed;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  onClose(listener: () => void): void {
    if (this.isClosed) listener();
    else this.#socket.once('close', listener);
  }

  #stir(): void {
    const wake = this.#wake;
    this.#wake = [];
    for (const each of wake) each();
  }

  /** Waits until something happens, or `ms` have passed. */
  #moved(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  say(bytes: string | Buffer): void {
    if (!this.isClosed) this.#socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  /**
   * Sends much data, as fast as the server takes it. Stops when it is answered, or the connection
   * is closed. Returns false if it did not send everything.
   */
  async pour(bytes: Buffer): Promise<boolean> {
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      while (this.#socket.writableNeedDrain && !this.isClosed && this.#heard.length === 0) await this.#moved(1000);
      if (this.isClosed || this.#heard.length > 0) return false;
      this.#socket.write(bytes.subarray(at, at + PIECE_BYTES));
    }
    return true;
  }

  /** The next answer; undefined if none comes. */
  async answer(ms: number): Promise<Answer | undefined> {
    const until = performance.now() + ms;
    while (this.#heard.length === 0 && !this.isClosed) {
      const left = until - performance.now();
      if (left <= 0) return undefined;
      await this.#moved(left);
    }
    return this.#heard.shift();
  }

  destroy(): void {
    this.#socket.destroy();
  }
}
