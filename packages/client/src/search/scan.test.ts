// A scan is about the view and the part of it that it is given, and counts what was answered.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { peekResponse } from '@hers/scheme';
import type { QuerySecret } from '@hers/scheme/secret';
import { HersError, type Service, withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { vectorOf } from '../../testing/client.ts';
import { Database, MasterSeed } from '../index.ts';
import { Keyring, openDescriptor } from '../keys/keyring.ts';
import { Draft } from '../session/draft.ts';
import { CollectionSession } from '../session/session.ts';
import { InMemoryVersions } from '../session/versions.ts';
import { View } from '../session/view.ts';
import { fillBlocks } from '../writing/enrolment.ts';
import { Candidates } from './candidates.ts';
import { Choices } from './choice.ts';
import { bySpace, queriesFor, type Strategy, sealed } from './queries.ts';
import { type Searching, scan } from './scan.ts';
import { search } from './search.ts';

const DIMENSION = 4;
const key = MasterSeed.generate();
const probe = vectorOf(1, DIMENSION);
const idsOf = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `r${from + i}`);
const recordsOf = (from: number, to: number) =>
  idsOf(from, to).map((id, i) => ({ id, vector: vectorOf(from + i, DIMENSION) }));

let folder: string;
let store: Service;
let session: CollectionSession;
let searching: Searching;
const searches: number[] = [];
const asked: Uint8Array[] = [];

async function sessionOf(service: Service, name: string): Promise<CollectionSession> {
  const { descriptor } = await store.getCollection(name);
  const keyring = await Keyring.make(key, openDescriptor(key, name, descriptor), 1);
  return new CollectionSession({ service, place: { gallery: '', name }, keyring, memory: new InMemoryVersions() });
}

/** Puts pending records into blocks of 3, and leaves the other blocks as they are. */
async function index(session: CollectionSession): Promise<void> {
  await session.write(async (view) => {
    const draft = new Draft(view);
    await fillBlocks(session, draft, { size: 3 });
    return { draft, result: undefined };
  });
}

/** Two blocks of 3 records, one of them deleted, and 2 pending ones. */
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-scan-'));
  store = await openStore(folder);
  const database = new Database(store, { key, threads: 1 });
  const faces = await database.createCollection('faces', { dimension: DIMENSION });
  await faces.upsert(recordsOf(0, 6));
  const service = withMethods(store, {
    search(name, request, options) {
      searches.push(request.version);
      asked.push(...request.queries);
      return store.search(name, request, options);
    },
  });
  session = await sessionOf(service, 'faces');
  searching = { session, candidates: new Candidates(session), choices: new Choices() };
  await index(session);
  await faces.delete('r1');
  await faces.upsert(recordsOf(6, 8));
  await session.refresh();
});
after(async () => {
  await session.keyring.close();
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

describe('the memory of a query', () => {
  it('is given back when all is answered, and not where a search ended before', async () => {
    const view = await session.view();
    asked.length = 0;
    await scan(searching, view, [probe], { limit: 1 });
    assert.deepEqual(
      asked.map(({ byteLength }) => byteLength),
      [0],
    );
    const signal = AbortSignal.abort(new Error('enough'));
    await assert.rejects(scan(searching, view, [probe], { limit: 1, signal }), /enough/);
    assert.ok(asked.length === 2 && asked[1].byteLength > 0);
  });
});

it('the queries that were made are wiped if one cannot be made', async () => {
  const view = await session.view();
  const secrets: QuerySecret[] = [];
  const failing: Strategy = {
    encrypt(...of) {
      if (secrets.length === 2) throw new Error('enough');
      const made = sealed.encrypt(...of);
      secrets.push(made.secret as QuerySecret);
      return made;
    },
  };
  const make = queriesFor(failing, [probe, probe, probe]);
  await assert.rejects(make(view, bySpace(view, view.manifest.blocks)), /enough/);
  assert.equal(secrets.length, 2);
  for (const secret of secrets) assert.throws(() => secret.expose(), { code: 'WIPED' });
});

it('in the middle of a rotation, an answer for a block of the other key is caught', async () => {
  const database = new Database(store, { key, threads: 1 });
  const faces = await database.createCollection('rotating', { dimension: DIMENSION });
  await faces.upsert(recordsOf(0, 3), { optimize: 'always' });
  // The first commit begins the epoch, and the next would move the block.
  let commits = 0;
  const stopping = withMethods(store, {
    commit: async (...change) => {
      if (commits++ > 0) throw new Error('enough');
      return store.commit(...change);
    },
  });
  const rotating = await new Database(stopping, { key, threads: 1 }).collection('rotating');
  await assert.rejects(rotating.rotateKey(), /enough/);
  await faces.upsert(recordsOf(3, 6));
  const writer = await sessionOf(store, 'rotating');
  await index(writer);
  const { manifest } = await writer.refresh();
  assert.deepEqual(manifest.blocks.map(({ epoch }) => epoch).sort(), [0, 1]);
  await writer.keyring.close();
  assert.equal((await faces.search(probe)).matches.length, 6);
  const service = withMethods(store, {
    async *search(name, request, options) {
      const [one, other] = await Array.fromAsync(store.search(name, request, { ...options, views: false }));
      const { blockId } = peekResponse(other);
      const swapped = one.slice();
      swapped.set(blockId, peekResponse(one).blockId.byteOffset - one.byteOffset);
      yield* [swapped, other];
    },
  });
  const cheated = await new Database(service, { key, threads: 1, versions: new InMemoryVersions() }).collection(
    'rotating',
  );
  await assert.rejects(cheated.search(probe), { code: 'INTEGRITY', message: /not part of this search/ });
});

describe('what was searched', () => {
  it('is counted from the answers: a part of a view is not all of it', async () => {
    const view = await session.view();
    const [first, second] = view.manifest.blocks;
    const live = (block: typeof first) => block.count - block.dead.length;
    assert.deepEqual([live(first) + live(second), view.pending.size], [5, 2]);
    const pending = [...view.pending.values()];
    for (const { part, searched } of [
      { part: undefined, searched: 7 },
      { part: { blocks: [first, second], pending: [] }, searched: 5 },
      { part: { blocks: [first], pending: [] }, searched: live(first) },
      { part: { blocks: [second], pending: pending.slice(1) }, searched: live(second) + 1 },
      { part: { blocks: [], pending }, searched: 2 },
    ]) {
      const scanned = await scan(searching, view, [probe, vectorOf(2, DIMENSION)], { limit: 100 }, part);
      // With room for all of them, what was found is what was compared.
      for (const each of scanned) assert.deepEqual([each.searched, each.found.length], [searched, searched]);
    }
  });

  it('is all there is for a search, in blocks and pending, without what was deleted', async () => {
    const faces = await new Database(store, { key, threads: 1 }).collection('faces');
    const { coverage, matches } = await faces.search(probe);
    assert.deepEqual(coverage, { searched: 7, total: 7 });
    assert.deepEqual(matches.map(({ id }) => id).sort(), ['r0', ...idsOf(2, 8)]);
  });

  it('is less than there is where a view lacks records that its manifest names', async () => {
    const view = await session.view();
    const lacking = new View({ ...view, pending: new Map() });
    const blind: CollectionSession = Object.create(session, {
      read: { value: (answer: (view: View) => unknown) => answer(lacking) },
    });
    const [{ coverage }] = await search({ ...searching, session: blind }, [probe], {});
    assert.deepEqual(coverage, { searched: 5, total: 7 });
  });
});

describe('a scan of a view that is not current', () => {
  it('is STALE and not tried again; a read is, with a newer view', async () => {
    const old = await session.view();
    const writer = await new Database(store, { key, threads: 1 }).collection('faces');
    await writer.upsert({ id: 'new', vector: probe });
    searches.length = 0;
    const isStale = (error: unknown) => error instanceof HersError && error.code === 'STALE';
    await assert.rejects(scan(searching, old, [probe], { limit: 1 }), isStale);
    assert.deepEqual(searches, [old.manifest.version]);
    const [{ found }] = await session.read((view) => scan(searching, view, [probe], { limit: 1 }));
    assert.equal(found[0].id, 'new');
    assert.deepEqual(searches.slice(1), [old.manifest.version, old.manifest.version + 1]);
  });
});
