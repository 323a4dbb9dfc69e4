// Passes requests on to one server, and to no other address.

import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request, type ServerResponse } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { encodeError, HersError } from '@hers/service';

export interface Upstream {
  /** The address of the server, perhaps with a path. */
  readonly url: string;
  /** Sent with every request; without one, what the page sends. */
  readonly token?: string;
}

/** The paths of the API. Nothing in them that somebody on the way could read as another path. */
const PATH = /^\/(?:v1(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)*|metrics|readyz)$/;
/** What is passed on of an answer; cookies are not, nor anything that a browser acts upon. */
const ANSWERED = ['content-type', 'content-length', 'retry-after'];

export class ServerProxy {
  readonly #base: URL;
  readonly #token: string | undefined;
  readonly #agent: Agent;

  constructor({ url, token }: Upstream) {
    this.#base = new URL(url);
    this.#token = token;
    const options = { keepAlive: true };
    this.#agent = this.#base.protocol === 'https:' ? new TlsAgent(options) : new Agent(options);
  }

  /** Whether it is a path of the API. */
  takes(path: string): boolean {
    return PATH.test(path);
  }

  pass(incoming: IncomingMessage, outgoing: ServerResponse, path: string, headers: OutgoingHttpHeaders): void {
    const { protocol, hostname, port, pathname } = this.#base;
    const send = protocol === 'https:' ? tlsRequest : request;
    const onward = send({
      protocol,
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port: port || undefined,
      path: pathname.replace(/\/+$/, '') + path,
      method: incoming.method,
      headers: this.#headersFor(incoming),
      agent: this.#agent,
    });
    const fail = () => {
      const error = new HersError('UNAVAILABLE', `${this.#base.origin} cannot be reached`);
      if (outgoing.headersSent) outgoing.destroy();
      else answerError(outgoing, 503, error, headers);
    };
    onward.on('error', fail);
    onward.on('response', (answer) => {
      const { statusCode = 502 } = answer;
      if (statusCode >= 300 && statusCode < 400) {
        answer.resume();
        const error = new HersError('UNAVAILABLE', `${this.#base.origin} leads elsewhere; give its final address`);
        return answerError(outgoing, 502, error, headers);
      }
      const passed = ANSWERED.flatMap((name) => {
        const value = answer.headers[name];
        return value === undefined ? [] : [[name, value]];
      });
      outgoing.writeHead(statusCode, { ...headers, ...Object.fromEntries(passed) });
      answer.on('error', fail).on('aborted', fail).pipe(outgoing);
    });
    outgoing.on('close', () => onward.destroy());
    incoming.on('error', () => onward.destroy()).pipe(onward);
  }

  #headersFor({ headers }: IncomingMessage): OutgoingHttpHeaders {
    const { 'content-type': type, 'content-length': length, authorization } = headers;
    const credentials = this.#token === undefined ? authorization : `Bearer ${this.#token}`;
    return {
      'accept-encoding': 'identity',
      ...(type === undefined ? {} : { 'content-type': type }),
      ...(length === undefined ? {} : { 'content-length': length }),
      ...(credentials === undefined ? {} : { authorization: credentials }),
    };
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** An error as the client reads it. */
export function answerError(
  outgoing: ServerResponse,
  status: number,
  error: HersError,
  headers: OutgoingHttpHeaders,
): void {
  outgoing.writeHead(status, { ...headers, 'content-type': 'application/json; charset=utf-8' });
  outgoing.end(JSON.stringify(encodeError(error)));
}
