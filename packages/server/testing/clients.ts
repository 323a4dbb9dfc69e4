// Shared by tests: clients that speak to a server without the SDK, and say what it never would.

import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { encodeMessage, OCTETS, type Service, withMethods } from '@hers/service';
import { encodeBlock, encodeQuery, Samples } from '@hers/service/samples';

const text = (value: string) => new TextEncoder().encode(value);
export const FACES = '/v1/collections/faces';

/** A process that never grows: where clients are in the same one as the server. */
export const measure = () => 0;

/** A connection to the server, and everything it says. */
export async function open(url: string): Promise<{ socket: Socket; said(): string; ended: Promise<void> }> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  let said = '';
  socket.setEncoding('latin1').on('data', (piece) => (said += piece));
  socket.on('error', () => {});
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return { socket, said: () => said, ended };
}

export const head = (method: string, path: string, ...headers: string[]) =>
  [`${method} ${path} HTTP/1.1`, 'host: localhost', ...headers, '', ''].join('\r\n');

export const post = (url: string, path: string, body: Uint8Array, method = 'POST') =>
  fetch(url + path, { method, body: body as BodyInit, headers: { 'content-type': OCTETS } });

/** Numbers of /metrics by their names. */
export async function metrics(url: string, headers: Record<string, string> = {}): Promise<Map<string, number>> {
  const lines = (await (await fetch(`${url}/metrics`, { headers })).text())
    .split('\n')
    .filter((line) => !line.startsWith('#'));
  return new Map(
    lines.filter(Boolean).map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]),
  );
}

/** Waits until nothing is under way but the question itself. */
export async function settled(url: string): Promise<void> {
  for (let i = 0; i < 200; i++) {
    if ((await metrics(url)).get('hers_requests_running') === 1) return;
    await pause(20);
  }
  assert.fail('requests are left over');
}

/** A collection with some blocks, and a search for it. */
export async function filled(store: Service, blocks = 4, shape = {}) {
  const samples = new Samples(1);
  await store.createCollection('faces', { id: samples.id(), descriptor: text('d'), manifest: text('1') });
  const stages = [];
  for (let i = 0; i < blocks; i++) stages.push(await store.stageBlock('faces', [encodeBlock(samples.block(shape))]));
  const version = await store.commit('faces', { expected: 1, manifest: text('2'), blocks: stages });
  const search = () => encodeMessage({ version }, [encodeQuery(samples.query(shape))]);
  return { samples, version, search };
}

/** A store whose searches wait until they are let go. */
export function held(store: Service): { service: Service; release(): void; begun(): number } {
  const gate = Promise.withResolvers<void>();
  let begun = 0;
  const service = withMethods(store, {
    async *search(...request) {
      begun++;
      await gate.promise;
      yield* store.search(...request);
    },
  });
  return { service, release: gate.resolve, begun: () => begun };
}
