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
/** What may have a body. */
const WITH_BODY: readonly unknown[] = ['POST', 'PUT'];
const METHODS: readonly unknown[] = [...WITH_BODY, 'GET', 'DELETE'];
/** What is passed on of an answer; cookies are not, nor anything that a browser acts upon. */
const ANSWERED = ['content-length', 'retry-after'];
/** The types of the API. Whatever else a server says, no browser shows it as a page. */
const TYPE = /^(?:application\/(?:json|octet-stream)|text\/plain)(?:;[ -~]*)?$/;
const OTHER_TYPE = 'application/octet-stream';

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
    const hasBody = WITH_BODY.includes(incoming.method);
    const isKnown = METHODS.includes(incoming.method);
    if (!isKnown || (!hasBody && announcesBody(incoming))) {
      const why = isKnown ? 'takes no body; send it without one' : 'is no method of this API';
      const error = new HersError('INVALID_ARGUMENT', `${incoming.method} ${why}`);
      // What is on its way is not read.
      answerError(outgoing, 400, error, { ...headers, connection: 'close' });
      return;
    }
    const { protocol, hostname, port, pathname } = this.#base;
    const send = protocol === 'https:' ? tlsRequest : request;
    const onward = send({
      protocol,
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port: port || undefined,
      path: pathname.replace(/\/+$/, '') + path,
      method: incoming.method,
      headers: { ...this.#headersFor(incoming), ...(hasBody ? framingOf(incoming) : {}) },
      agent: this.#agent,
    });
    const fail = () => {
      const error = new HersError('UNAVAILABLE', `${this.#base.origin} cannot be reached`);
      if (outgoing.headersSent) outgoing.destroy();
      else answerError(outgoing, 503, error, headers);
    };
    const refuse = (why: string) =>
      answerError(outgoing, 502, new HersError('UNAVAILABLE', `${this.#base.origin} ${why}`), headers);
    onward.on('error', fail);
    onward.on('upgrade', (_, socket) => {
      socket.destroy();
      refuse('speaks another protocol');
    });
    onward.on('response', (answer) => {
      const { statusCode = 0 } = answer;
      const isRedirect = statusCode >= 300 && statusCode < 400;
      if (isRedirect || statusCode < 200 || statusCode > 599) {
        answer.resume();
        return refuse(isRedirect ? 'leads elsewhere; give its final address' : 'answers what is no HTTP');
      }
      const { 'content-type': type } = answer.headers;
      const passed = ANSWERED.flatMap((name) => {
        const value = answer.headers[name];
        return value === undefined ? [] : [[name, value]];
      });
      outgoing.writeHead(statusCode, {
        ...headers,
        ...(type === undefined ? {} : { 'content-type': TYPE.test(type) ? type : OTHER_TYPE }),
        ...Object.fromEntries(passed),
      });
      answer.on('error', fail).on('aborted', fail).pipe(outgoing);
    });
    outgoing.on('close', () => onward.destroy());
    incoming.on('error', () => onward.destroy());
    if (hasBody) incoming.pipe(onward);
    else onward.end();
  }

  #headersFor({ headers }: IncomingMessage): OutgoingHttpHeaders {
    const { 'content-type': type, authorization } = headers;
    const credentials = this.#token === undefined ? authorization : `Bearer ${this.#token}`;
    return {
      'accept-encoding': 'identity',
      ...(type === undefined ? {} : { 'content-type': type }),
      ...(credentials === undefined ? {} : { authorization: credentials }),
    };
  }

  close(): void {
    this.#agent.destroy();
  }
}

const announcesBody = ({ headers }: IncomingMessage) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0;

/**
 * How the server knows where a body ends. Without either header Node writes a body as it is, and
 * the server would read it as further requests, to paths that nobody has checked.
 */
function framingOf({ headers }: IncomingMessage): OutgoingHttpHeaders {
  if (headers['transfer-encoding'] !== undefined) return { 'transfer-encoding': 'chunked' };
  return { 'content-length': headers['content-length'] ?? '0' };
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
