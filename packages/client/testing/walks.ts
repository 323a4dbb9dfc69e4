// Calls to be traced, on small collections that go away. Each step is a call that can be repeated.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TokenStore } from '@hers/server';
import { served } from '@hers/server/testing';
import { openStore } from '@hers/store';
import { connect, Database, MasterSeed } from '../src/index.ts';
import { vectorOf } from './client.ts';
import { near, world } from './devices.ts';
import { type Trace, traced } from './trace.ts';

/** Named calls, in order, and what is to be closed behind them. */
export interface Walk {
  readonly steps: Readonly<Record<string, () => Promise<unknown>>>;
  close(): Promise<void>;
}

const DIMENSION = 16;
/** As on a machine with two cores, whichever this is. */
export const THREADS = 2;
/** A process that never grows: a server collects the garbage of any other now and then. */
const measure = () => 0;

/** A block of records and some that are pending, to be searched. */
export async function searching(db: Database): Promise<() => Promise<unknown>> {
  const faces = await db.createCollection('faces', { dimension: DIMENSION, profile: 'compact' });
  await faces.upsert(Array.from({ length: 2100 }, (_, i) => ({ id: `r${i}`, vector: vectorOf(i, DIMENSION) })));
  return () => faces.search(vectorOf(7, DIMENSION), { limit: 5 });
}

/** A folder that is opened, and goes away. */
async function inFolder() {
  const folder = await mkdtemp(join(tmpdir(), 'hers-walk-'));
  // Work that waits until it is quiet would be traced by chance.
  const store = await openStore(folder, { quietMs: 600_000 });
  const db = new Database(store, { key: MasterSeed.generate(), threads: THREADS });
  return { db, close: () => db.close().then(() => rm(folder, { recursive: true })) };
}

async function folder(): Promise<Walk> {
  const { db, close } = await inFolder();
  return { steps: { folder: await searching(db) }, close };
}

async function upsert(): Promise<Walk> {
  const { db, close } = await inFolder();
  const faces = await db.createCollection('faces', { dimension: DIMENSION });
  let i = 0;
  return { steps: { upsert: () => faces.upsert({ id: `r${i}`, vector: vectorOf(i++, DIMENSION) }) }, close };
}

async function http(): Promise<Walk> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-walk-'));
  const tokens = new TokenStore(join(folder, 'tokens.json'));
  const { secret: token } = await tokens.create({ scope: 'admin' });
  const server = await served({ tokens: tokens.path, measure });
  const db = await connect(server.url, { key: MasterSeed.generate(), token, threads: THREADS });
  return {
    steps: { http: await searching(db) },
    async close() {
      await db.close();
      await server[Symbol.asyncDispose]();
      await rm(folder, { recursive: true });
    },
  };
}

/** A device posts a question, and the keeper answers it. */
async function device(): Promise<Walk> {
  const people = await world(40, {}, { measure });
  const door = await people.device('door');
  return {
    steps: { 'device asks': () => door.ask(near(3)), 'keeper answers': () => people.answers() },
    close: () => people[Symbol.asyncDispose](),
  };
}

export const WALKS = { upsert, folder, http, device };

/** Rounds that fill caches, also those of every node that a search may choose. */
const ROUNDS = 10;
/** Long enough for the upkeep that follows a change. */
const SETTLE_MS = 200;

/** Traces each step once, when it is warm. */
export async function traceWalk(set: () => Promise<Walk>): Promise<Map<string, Trace>> {
  const { steps, close } = await set();
  try {
    for (let round = 0; round < ROUNDS; round++) for (const step of Object.values(steps)) await step();
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    const traces = new Map<string, Trace>();
    for (const [name, step] of Object.entries(steps)) traces.set(name, await traced(step));
    return traces;
  } finally {
    await close();
  }
}
