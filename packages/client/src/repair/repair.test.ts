// Galleries that are really damaged, and what a repair makes of them: everything that is not in the
// damaged bytes, nothing wrong, nothing that was deleted. A plain map is the oracle.
//
// Long: repair.test.ts of cli is the short form.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { openStore } from '@hers/store';
import { fit } from '@hers/training';
import { scoreOf, vectorOf } from '../../testing/client.ts';
import { type Collection, connect, type Database, type HersError, MasterSeed, type VectorRecord } from '../index.ts';
import { VersionFile } from '../session/versions.node.ts';
import { type RepairedCollection, type RepairReport, repairGallery } from './repair.node.ts';

const isRoot = process.getuid?.() === 0;
const ROOT_MAY = 'nothing is forbidden to root';
const key = MasterSeed.generate();
const DIMENSION = 4;
type Oracle = Map<string, VectorRecord>;
const oracles = new Map<string, Oracle>();
let parent = '';
let original = '';
/** As it was some versions before the last. */
let older = '';

const record = (id: string, seed: number): VectorRecord => ({
  id,
  vector: vectorOf(seed, DIMENSION),
  payload: { seed },
});
const many = (from: number, count: number) => Array.from({ length: count }, (_, i) => record(`r${from + i}`, from + i));

async function upsert(collection: Collection, records: readonly VectorRecord[]): Promise<void> {
  await collection.upsert(records);
  for (const each of records) oracles.get(collection.name)!.set(each.id, each);
}

async function remove(collection: Collection, ids: readonly string[]): Promise<void> {
  await collection.delete(ids);
  for (const id of ids) oracles.get(collection.name)!.delete(id);
}

const versionsAt = (folder: string) => new VersionFile(`${folder}.seen.json`);
const open = (folder: string): Promise<Database> =>
  connect(`file:${folder}`, { key, threads: 1, versions: versionsAt(folder) });

before(async () => {
  parent = mkdtempSync(join(tmpdir(), 'hers-repair-'));
  original = join(parent, 'original');
  older = join(parent, 'older');
  let db = await open(original);
  const exact = { dimension: DIMENSION, profile: 'exact' } as const;
  const make = async (name: string, options: Parameters<Database['createCollection']>[1]) => {
    oracles.set(name, new Map());
    return db.createCollection(name, options);
  };
  let faces = await make('faces', { dimension: DIMENSION });
  let prints = await make('prints', exact);
  let marks = await make('marks', exact);
  // Two blocks in a segment, one in a file of its own, and some pending.
  await upsert(faces, many(0, 4500));
  await remove(faces, ['r3', 'r2100', 'r4400']);
  await faces.optimize();
  await remove(faces, ['r5']);
  await upsert(faces, [record('r6', 90_006), record('r2200', 92_200)]);
  await upsert(prints, many(0, 300));
  for (const part of [0, 1, 2, 3]) await upsert(marks, many(20 * part, 20));
  await remove(marks, ['r7', 'r45']);
  await db.close();
  cpSync(original, older, { recursive: true });

  db = await open(original);
  [faces, prints, marks] = await Promise.all(['faces', 'prints', 'marks'].map((name) => db.collection(name)));
  await upsert(faces, many(10_000, 2500));
  await upsert(prints, [record('r9', 90_009)]);
  await remove(prints, ['r10', 'r11']);
  await remove(faces, ['r10000', 'r12', 'r10001']);
  await upsert(marks, many(100, 5));
  await upsert(marks, [record('r8', 90_008)]);
  await db.close();
});
after(() => rmSync(parent, { recursive: true, force: true }));

let copies = 0;
function copyOf(from = original): string {
  const folder = join(parent, `copy-${++copies}`);
  cpSync(from, folder, { recursive: true });
  // What was seen is of the place, and tests move it.
  const seen = JSON.parse(readFileSync(`${original}.seen.json`, 'utf8'));
  for (const row of seen.collections) row.gallery = `file:${folder}`;
  writeFileSync(`${folder}.seen.json`, JSON.stringify(seen));
  return folder;
}

const repair = (folder: string, options: Partial<Parameters<typeof repairGallery>[0]> = {}) =>
  repairGallery({ folder, key, threads: 1, versions: versionsAt(folder), ...options });

// — kinds of damage —

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at < 0 ? bytes.length + at : at] ^= 0x40;
  writeFileSync(path, bytes);
}

function zero(path: string, from: number, to: number): void {
  const bytes = readFileSync(path);
  bytes.fill(0, from, Math.min(to, bytes.length));
  writeFileSync(path, bytes);
}

const only = (folder: string, inside: string, start = '') =>
  readdirSync(join(folder, inside))
    .filter((name) => name.startsWith(start))
    .map((name) => join(folder, inside, name))
    .sort();

interface PackEntry {
  readonly at: number;
  readonly length: number;
  readonly kind: number;
}

function entriesIn(path: string): PackEntry[] {
  const bytes = readFileSync(path);
  const found: PackEntry[] = [];
  for (let at = 40; at < bytes.length; ) {
    const length = bytes.readUInt32LE(at) + 16;
    found.push({ at, length, kind: bytes.readUInt32LE(at + 4) });
    at += length;
  }
  return found;
}

// — what must hold afterwards —

const of = (report: RepairReport, name: string): RepairedCollection =>
  report.collections.find((each) => each.name === name)!;

/**
 * Everything of the oracle is there but what the report says is lost, and nothing else; scores are
 * right, the folder is clean.
 */
async function check(
  report: RepairReport,
  allowed: Partial<Record<string, number>> = {},
  oracle = oracles,
): Promise<void> {
  const db = await connect(`file:${report.folder}`, { key, threads: 1, versions: versionsAt(report.folder) });
  try {
    for (const [name, records] of oracle) {
      const { lost } = of(report, name);
      assert.ok(lost.count <= (allowed[name] ?? 0), `${name} lost ${lost.count}`);
      const collection = await db.collection(name);
      const ids = new Set(await Array.fromAsync(collection.list()));
      for (const id of ids) assert.ok(records.has(id), `${name}: ${id} was deleted, and is back`);
      for (const id of lost.ids) assert.ok(!ids.has(id) && records.has(id), `${name}: ${id}`);
      assert.equal(ids.size, records.size - lost.count, name);
      assert.equal(await collection.count(), ids.size);
      await checkRecords(collection, [...ids], records);
      await checkScores(collection, [...ids], records);
    }
  } finally {
    await db.close();
  }
  await checkClean(report.folder);
}

async function checkRecords(collection: Collection, ids: readonly string[], records: Oracle): Promise<void> {
  for (const { id, vector, payload } of await collection.get(ids))
    assert.deepEqual({ id, vector, payload }, { ...records.get(id)! });
}

async function checkScores(collection: Collection, ids: readonly string[], records: Oracle): Promise<void> {
  const probes = [ids[0], ids[ids.length >> 1], ids[ids.length - 1]].map((id) => records.get(id)!);
  const results = await collection.searchBatch(
    probes.map(({ vector }) => vector),
    { limit: 4 },
  );
  results.forEach(({ matches, coverage }, i) => {
    assert.deepEqual(coverage, { searched: ids.length, total: ids.length });
    assert.ok(matches.some(({ id }) => id === probes[i].id));
    for (const { id, score } of matches)
      assert.ok(Math.abs(score - scoreOf('cosine', records.get(id)!.vector, probes[i].vector)) < 0.05);
  });
}

async function checkClean(folder: string): Promise<void> {
  const store = await openStore(folder);
  try {
    for await (const { file, damage } of store.scrub()) assert.equal(damage, undefined, file);
  } finally {
    await store.close();
  }
}

/** A second run has nothing to do, and what was damaged is kept. */
async function checkSettled(report: RepairReport, damagedFiles: readonly string[]): Promise<void> {
  assert.equal(report.outcome, 'rebuilt');
  assert.ok(existsSync(report.backup!));
  assert.deepEqual(filesOf(report.backup!), damagedFiles);
  assert.equal((await repair(report.folder)).outcome, 'whole');
  assert.deepEqual(besides(report.folder, 'repair'), []);
}

/**
 * Names, lengths and times of files; not of those that say who has a folder open, nor of an empty
 * log, which looking into it leaves.
 */
const filesOf = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => !/^(?:lock|writer|.*-shm)$/.test(name))
    .map((name) => ({ name, stat: statSync(join(folder, name)) }))
    .filter(({ name, stat }) => stat.isFile() && !(name.endsWith('-wal') && stat.size === 0))
    .map(({ name, stat }) => `${name} ${stat.size} ${stat.mtimeMs}`)
    .sort();

const besides = (folder: string, kind: string) =>
  readdirSync(dirname(folder)).filter((name) => name.startsWith(`${basename(folder)}.${kind}`));

const exactly = (report: RepairReport) => {
  assert.equal(report.complete, true);
  for (const { name, found, version, lost, blocks } of report.collections) {
    assert.equal(version, found, name);
    assert.equal(lost.count, 0);
    assert.equal(blocks.rebuilt + blocks.dropped, 0);
  }
};

describe('the catalogue', () => {
  const cases: Record<string, (folder: string) => void> = {
    'is empty': (folder) => writeFileSync(join(folder, 'catalogue.db'), ''),
    'is missing, with its sums': (folder) => {
      unlinkSync(join(folder, 'catalogue.db'));
      unlinkSync(join(folder, 'catalogue.sums'));
    },
    'is an older copy': (folder) => {
      for (const file of ['catalogue.db', 'catalogue.sums']) cpSync(join(older, file), join(folder, file));
    },
    'has a flipped byte in each of its pages': (folder) => {
      for (let at = 2048; at < statSync(join(folder, 'catalogue.db')).size; at += 4096)
        flip(join(folder, 'catalogue.db'), at);
    },
    'is another file': (folder) => writeFileSync(join(folder, 'catalogue.db'), Buffer.alloc(50_000, 7)),
  };
  for (const [what, damage] of Object.entries(cases)) {
    it(`${what}: everything comes back, as it was`, async () => {
      const folder = copyOf();
      damage(folder);
      const damaged = filesOf(folder);
      const report = await repair(folder);
      exactly(report);
      await check(report);
      await checkSettled(report, damaged);
    });
  }

  it('has a flipped page: whatever page that is', async () => {
    const pages = statSync(join(original, 'catalogue.db')).size / 4096;
    for (const page of [0, 2, pages >> 1]) {
      const folder = copyOf();
      flip(join(folder, 'catalogue.db'), page * 4096 + 4000);
      const report = await repair(folder);
      exactly(report);
      if (report.outcome === 'rebuilt') await check(report);
    }
  });

  it('has a log that is damaged, or gone', async () => {
    for (const damage of ['flipped', 'gone', 'torn'] as const) {
      const folder = await crashed();
      const log = join(folder, 'catalogue.db-wal');
      assert.ok(statSync(log).size > 0);
      if (damage === 'flipped') flip(log, statSync(log).size - 5000);
      else if (damage === 'gone') unlinkSync(log);
      else truncateSync(log, statSync(log).size - 100);
      const report = await repair(folder);
      exactly(report);
      assert.equal(of(report, 'faces').records, oracles.get('faces')!.size + 1);
      const db = await open(folder);
      assert.deepEqual(await (await db.collection('faces')).get('late'), [record('late', 5)]);
      await db.close();
    }
  });

  /** A copy whose last commit is in the log. */
  async function crashed(): Promise<string> {
    const from = copyOf();
    const folder = copyOf();
    rmSync(folder, { recursive: true });
    const db = await open(from);
    await (await db.collection('faces')).upsert(record('late', 5));
    cpSync(from, folder, { recursive: true });
    await db.close();
    rmSync(join(folder, 'catalogue.db-shm'), { force: true });
    return folder;
  }
});

describe('the journal', () => {
  it('is missing or damaged, with a good catalogue: its proofs are made again, and nothing else is done', async () => {
    for (const damage of [
      (path: string) => unlinkSync(path),
      (path: string) => flip(path, 60),
      (path: string) => flip(path, -9),
      (path: string) => writeFileSync(path, ''),
    ]) {
      const folder = copyOf();
      damage(join(folder, 'catalogue.journal'));
      const report = await repair(folder);
      // Half an entry at the end is what a crash leaves, and is mended by opening the folder.
      assert.ok(['mended', 'whole'].includes(report.outcome), report.outcome);
      assert.equal(report.complete, true);
      assert.equal(report.backup, undefined);
      await check(report);
      assert.equal((await repair(folder)).outcome, 'whole');
    }
  });

  it('is missing, and pages of the catalogue are damaged', async () => {
    const folder = copyOf();
    unlinkSync(join(folder, 'catalogue.journal'));
    unlinkSync(join(folder, 'catalogue.sums'));
    // The last page that belongs to records: the rest can be read.
    const database = new DatabaseSync(join(folder, 'catalogue.db'));
    const { pageno } = database.prepare("SELECT max(pageno) AS pageno FROM dbstat WHERE name = 'records_1'").get()!;
    database.close();
    zero(join(folder, 'catalogue.db'), (Number(pageno) - 1) * 4096, Number(pageno) * 4096);
    const report = await repair(folder);
    assert.equal(report.outcome, 'rebuilt');
    exactly(report);
    await check(report);
  });

  it('is missing, and the catalogue an older one: what it knows comes back, and versions are said to be missing', async () => {
    const folder = copyOf();
    unlinkSync(join(folder, 'catalogue.journal'));
    cpSync(join(older, 'catalogue.db'), join(folder, 'catalogue.db'));
    unlinkSync(join(folder, 'catalogue.sums'));
    const damaged = filesOf(folder);
    const report = await repair(folder);
    assert.equal(report.outcome, 'rebuilt');
    assert.deepEqual(filesOf(report.backup!), damaged);
    assert.equal(report.complete, false);
    const faces = of(report, 'faces');
    assert.ok(faces.missingVersions > 0);
    const db = await connect(`file:${report.folder}`, { key, threads: 1 });
    const ids = new Set(await Array.fromAsync((await db.collection('faces')).list()));
    await db.close();
    for (const id of oracles.get('faces')!.keys()) assert.ok(id.length > 5 || ids.has(id), id);
    // The client that has seen more says so until a person accepts it.
    const careful = await open(report.folder);
    await assert.rejects(careful.collection('faces'), { code: 'INTEGRITY' });
    await careful.accept('faces');
    await careful.collection('faces');
    await careful.close();
  });

  it('is damaged with the catalogue: nothing is written, and what was seen is told', async () => {
    const folder = copyOf();
    for (const name of ['catalogue.journal', 'catalogue.db']) zero(join(folder, name), 0, 10_000_000);
    const damaged = filesOf(folder);
    await assert.rejects(repair(folder), (error: HersError) => {
      assert.equal(error.code, 'DAMAGED');
      assert.match(error.message, /no manifest .* \d\d\d\d sealed records .* nothing was deleted/i);
      return true;
    });
    assert.deepEqual(filesOf(folder), damaged);
    assert.deepEqual(besides(folder, 'repair'), []);
  });
});

describe('packs', () => {
  const packsOf = (folder: string) => only(folder, 'vault', '1-');

  it('a record whose bytes are flipped is lost, named, and the only one', async () => {
    for (const where of ['length', 'kind', 'content', 'checksum'] as const) {
      const folder = copyOf();
      const [path] = packsOf(folder);
      const { at, length } = entriesIn(path).filter(({ kind }) => kind === 1)[100];
      flip(path, { length: at + 1, kind: at + 4, content: at + 60, checksum: at + length - 1 }[where]);
      const report = await repair(folder);
      const { lost, version, found } = of(report, 'faces');
      assert.equal(lost.count, 1);
      assert.equal(lost.ids.length, 1);
      assert.equal(version, found + 1);
      assert.equal(report.complete, false);
      assert.equal(report.damage.length, 1);
      const [{ from, to }] = report.damage[0].ranges;
      assert.deepEqual({ from, to }, { from: at, to: at + length });
      await check(report, { faces: 1 });
      assert.equal((await repair(folder)).outcome, 'whole');
    }
  });

  it('a hole of zeros takes what lay there, and nothing else', async () => {
    const folder = copyOf();
    const [path] = packsOf(folder);
    const entries = entriesIn(path);
    const [from, to] = [entries[50].at + 7, entries[90].at + 3];
    zero(path, from, to);
    const inside = entries.slice(50, 91).filter(({ kind }) => kind === 1).length;
    const report = await repair(folder);
    const { lost } = of(report, 'faces');
    assert.ok(lost.count > 0 && lost.count <= inside, `${lost.count}`);
    await check(report, { faces: inside });
  });

  it('cut, headless, under the name of another, set aside', async () => {
    const cuts: ((folder: string) => number)[] = [
      (folder) => {
        const path = packsOf(folder).at(-1)!;
        const entries = entriesIn(path);
        const kept = entries.slice(0, -30);
        truncateSync(path, kept.at(-1)!.at + kept.at(-1)!.length + 5);
        return 30;
      },
      (folder) => {
        zero(packsOf(folder)[0], 0, 40);
        return 0;
      },
      (folder) => {
        const [one] = only(folder, 'vault', '1-');
        const [other] = only(folder, 'vault', '2-');
        renameSync(one, `${one}.x`);
        renameSync(other, one);
        renameSync(`${one}.x`, other);
        return 0;
      },
      (folder) => {
        const [one] = packsOf(folder);
        cpSync(one, join(folder, 'lost+found', basename(one)), { recursive: true });
        unlinkSync(one);
        return 0;
      },
    ];
    for (const cut of cuts) {
      const folder = copyOf();
      const allowed = cut(folder);
      const report = await repair(folder);
      assert.equal(report.outcome, 'rebuilt');
      if (allowed === 0) exactly(report);
      await check(report, { faces: allowed });
    }
  });

  it('missing: the records and lists in it are lost, other collections are whole', async () => {
    const folder = copyOf();
    for (const path of packsOf(folder)) unlinkSync(path);
    const report = await repair(folder);
    const { lost, records } = of(report, 'faces');
    assert.equal(records, 0);
    assert.equal(lost.count, oracles.get('faces')!.size);
    assert.equal(of(report, 'prints').complete, true);
    const { faces: _, ...rest } = Object.fromEntries(oracles);
    await check(report, {}, new Map(Object.entries(rest)));
  });

  it('a pack full of false beginnings does not hold it up, and can be stopped', async () => {
    const folder = copyOf();
    const [path] = packsOf(folder);
    const bytes = Buffer.alloc(2 ** 25);
    for (let at = 0; at < bytes.length; at += 8) {
      bytes.writeUInt32LE(2 ** 20, at);
      bytes.writeUInt32LE(1, at + 4);
    }
    writeFileSync(`${path.slice(0, -6)}9.pack`, bytes);
    const started = performance.now();
    const report = await repair(folder, { into: `${folder}-new` });
    assert.ok(performance.now() - started < 60_000);
    assert.equal(report.outcome, 'whole'); // what the catalogue does not name is not looked at
    unlinkSync(join(folder, 'catalogue.db'));
    const stop = new AbortController();
    // While the false beginnings are read, however fast this machine is.
    const onProgress = () => stop.abort();
    await assert.rejects(repair(folder, { into: `${folder}-new`, signal: stop.signal, onProgress }));
    assert.ok(!existsSync(`${folder}-new`));
    assert.deepEqual(besides(`${folder}-new`, 'repair'), []);
    await check(await repair(folder, { into: `${folder}-new` }));
  });
});

describe('lists', () => {
  const lists = (path: string) => entriesIn(path).filter(({ kind }) => kind === 2);

  /** Flips a byte in every list of a pack that is live. */
  function flipList(folder: string, start: string, which: number): void {
    const path = only(folder, 'vault', start).at(-1)!;
    flip(path, lists(path).at(which)!.at + 70);
  }

  it('lost ones of a vault: the catalogue tells which records they had', async () => {
    const folder = copyOf();
    flipList(folder, '1-', 0);
    const report = await repair(folder);
    const { unlisted, lost, blocks } = of(report, 'faces');
    assert.equal(lost.count, 0);
    assert.equal(blocks.dropped, 1);
    assert.ok(unlisted.broughtBack > 2000, `${unlisted.broughtBack}`);
    await check(report);
    assert.equal((await repair(folder)).outcome, 'whole');
  });

  it('without a catalogue nothing is guessed; --unlisted brings back what was written last', async () => {
    const folder = copyOf();
    flipList(folder, '1-', 0);
    unlinkSync(join(folder, 'catalogue.db'));
    const report = await repair(folder, { into: `${folder}-careful` });
    const faces = of(report, 'faces');
    assert.equal(faces.unlisted.broughtBack, 0);
    assert.ok(faces.unlisted.found > faces.lost.count);
    assert.equal(faces.lost.count, faces.unlisted.found - (faces.unlisted.found - faces.lost.count));
    await check(report, { faces: 3000 });

    const bold = await repair(folder, { into: `${folder}-bold`, unlisted: true });
    const { unlisted, records, lost } = of(bold, 'faces');
    assert.equal(unlisted.broughtBack, unlisted.found);
    assert.equal(lost.count, 0);
    assert.ok(records >= oracles.get('faces')!.size);
  });

  it('without a catalogue, where nothing was deleted, all that no list names is of the lost one', async () => {
    const folder = copyOf();
    const db = await open(folder);
    await (await db.collection('faces')).optimize();
    await db.close();
    flipList(folder, '1-', -1);
    unlinkSync(join(folder, 'catalogue.db'));
    const report = await repair(folder);
    const { unlisted, lost } = of(report, 'faces');
    assert.equal(lost.count, 0);
    assert.ok(unlisted.broughtBack > 0);
    assert.equal(unlisted.broughtBack, unlisted.found);
    await check(report);
  });

  it('of a compressor: what it had compressed is indexed without one', async () => {
    const folder = join(parent, 'compressed');
    const dimension = 16;
    const all = Array.from({ length: 2100 }, (_, i) => ({ id: `c${i}`, vector: vectorOf(i, dimension) }));
    const training = new Float32Array(all.flatMap(({ vector }) => [...vector]));
    const compressor = (await fit('pca', training, undefined, { inputDimension: dimension, dimension: 8 })).save();
    const db = await connect(`file:${folder}`, { key, threads: 1 });
    await (await db.createCollection('short', { dimension, compressor })).upsert(all);
    await db.close();
    const found = only(folder, 'vault').flatMap((path) => lists(path).map(({ at }) => ({ name: basename(path), at })));
    const kinds = found.map(async ({ name, at }, which) => {
      const damaged = `${folder}-${which}`;
      cpSync(folder, damaged, { recursive: true });
      flip(join(damaged, 'vault', name), at + 70);
      const report = await repairGallery({ folder: damaged, key, threads: 1 });
      const short = of(report, 'short');
      assert.equal(short.lost.count, 0);
      assert.equal(short.records, all.length);
      assert.equal(report.complete, !short.lostCompressor);
      const again = await connect(`file:${damaged}`, { key, threads: 1 });
      const collection = await again.collection('short');
      assert.equal((await collection.index()).plan.dimension, short.lostCompressor ? dimension : 8);
      for (const i of [0, 2047, 2099]) {
        const { matches, coverage } = await collection.search(all[i].vector, { limit: 1, rerank: true });
        assert.deepEqual(coverage, { searched: all.length, total: all.length });
        assert.equal(matches[0].id, `c${i}`);
      }
      await again.close();
      await checkClean(damaged);
      return short.lostCompressor;
    });
    assert.deepEqual((await Promise.all(kinds)).sort(), [false, true]);
  });

  it('of evaluation keys: all records are there, and optimize makes the keys again', async () => {
    const folder = join(parent, 'asked-openly');
    const all = Array.from({ length: 30 }, (_, i) => ({ id: `o${i}`, vector: vectorOf(i, 8) }));
    let db = await connect(`file:${folder}`, { key, threads: 1 });
    await (await db.createCollection('open', { dimension: 8, profile: 'open' })).upsert(all);
    await (await db.collection('open')).optimize();
    await db.close();
    // Those of the keys are by far the largest.
    const found = only(folder, 'vault').flatMap((path) => lists(path).map((entry) => ({ path, ...entry })));
    const largest = found.reduce((one, other) => (other.length > one.length ? other : one));
    flip(largest.path, largest.at + 70);
    const report = await repairGallery({ folder, key, threads: 1 });
    const { lost, records, lostEvaluation, complete } = of(report, 'open');
    assert.deepEqual(
      { lost: lost.count, records, lostEvaluation, complete },
      { lost: 0, records: 30, lostEvaluation: true, complete: false },
    );
    assert.equal(report.complete, false);
    db = await connect(`file:${folder}`, { key, threads: 1 });
    const collection = await db.collection('open');
    await assert.rejects(collection.search(all[3].vector), { code: 'INTEGRITY', message: /optimize/ });
    await collection.optimize();
    assert.equal((await collection.search(all[3].vector, { limit: 1 })).matches[0].id, 'o3');
    await db.close();
    await checkClean(folder);
  });
});

describe('blocks', () => {
  it('of a vault are encrypted again, whether missing or flipped, in a file or a segment', async () => {
    const damages: ((folder: string) => void)[] = [
      (folder) => unlinkSync(only(folder, 'blocks', '1-')[0]),
      (folder) => flip(only(folder, 'blocks', '1-')[0], 5000),
      (folder) => {
        const [path] = only(folder, 'segments', '1-');
        flip(path, statSync(path).size >> 1);
      },
      (folder) => unlinkSync(only(folder, 'segments', '1-')[0]),
      (folder) => truncateSync(only(folder, 'segments', '1-')[0], 20_000),
    ];
    for (const damage of damages) {
      const folder = copyOf();
      damage(folder);
      const report = await repair(folder);
      const { blocks, lost } = of(report, 'faces');
      assert.equal(report.complete, true);
      assert.equal(lost.count, 0);
      assert.ok(blocks.rebuilt > 0);
      await check(report);
      assert.equal((await repair(folder)).outcome, 'whole');
    }
  });

  it('a part of a segment is damaged: the other blocks of it are taken as they are', async () => {
    const folder = copyOf();
    const [path] = only(folder, 'segments', '1-');
    const bytes = readFileSync(path);
    const dataAt = Number(bytes.readBigUInt64LE(64));
    flip(path, dataAt + 64); // the second row of the first block
    const report = await repair(folder);
    const { blocks } = of(report, 'faces');
    assert.equal(blocks.rebuilt, 1);
    assert.ok(blocks.kept >= 1);
    assert.match(report.damage[0].file, /segment$/);
    assert.equal(report.damage[0].ranges[0].from, dataAt);
    await check(report);
  });

  it('parts that are damaged one behind the other are one place', async () => {
    const folder = copyOf();
    const [path] = only(folder, 'segments', '1-');
    const bytes = readFileSync(path);
    const dataAt = Number(bytes.readBigUInt64LE(64));
    zero(path, dataAt + 64, dataAt + ((bytes.length - dataAt) >> 1));
    const { damage } = await repair(folder);
    assert.equal(damage.length, 1);
    assert.equal(damage[0].ranges.length, 1);
    const [{ from, to }] = damage[0].ranges;
    assert.equal(from, dataAt);
    assert.ok(to >= dataAt + ((bytes.length - dataAt) >> 1) && to < bytes.length, `${from} to ${to}`);
  });

  it('a segment without its head is read by what the catalogue says of it', async () => {
    const folder = copyOf();
    zero(only(folder, 'segments', '1-')[0], 0, 300);
    const report = await repair(folder);
    exactly(report);
    await check(report);
  });

  it('of a segment whose seeds are lost are encrypted again', async () => {
    const folder = copyOf();
    const database = new DatabaseSync(join(folder, 'catalogue.db'));
    database.exec('UPDATE blocks_1 SET seed = zeroblob(32)');
    database.close();
    unlinkSync(join(folder, 'catalogue.journal'));
    const report = await repair(folder);
    const { lost, blocks } = of(report, 'faces');
    assert.deepEqual(
      { lost: lost.count, kept: blocks.kept, rebuilt: blocks.rebuilt },
      { lost: 0, kept: 2, rebuilt: 2 },
    );
    await check(report);
  });
});

describe('repairing', () => {
  it('leaves a whole gallery alone', async () => {
    const folder = copyOf();
    const report = await repair(folder);
    assert.equal(report.outcome, 'whole');
    assert.equal(report.complete, true);
    assert.equal((await repair(folder, { into: `${folder}-new` })).outcome, 'whole');
    assert.ok(!existsSync(`${folder}-new`));
    await check(report);
  });

  it('refuses another key, and writes nothing', async () => {
    const folder = copyOf();
    unlinkSync(join(folder, 'catalogue.db'));
    const damaged = filesOf(folder);
    await assert.rejects(repair(folder, { key: MasterSeed.generate() }), { code: 'WRONG_KEY' });
    assert.deepEqual(filesOf(folder), damaged);
    assert.deepEqual(besides(folder, 'repair'), []);
  });

  it('says that another key opens nothing of a gallery that is whole, and which collections a key does not open', async () => {
    const folder = copyOf();
    const other = MasterSeed.generate();
    await assert.rejects(repair(folder, { key: other, versions: new VersionFile(`${folder}.other.json`) }), {
      code: 'WRONG_KEY',
      message: /made with another key \(faces, prints, marks\)/,
    });
    assert.deepEqual(besides(folder, 'repair'), []);
    const db = await connect(`file:${folder}`, { key: other, threads: 1 });
    await db.createCollection('theirs', { dimension: DIMENSION });
    await db.close();
    const report = await repair(folder);
    assert.equal(report.outcome, 'whole');
    assert.equal(report.complete, true);
    assert.deepEqual(report.ofOtherKeys, ['theirs']);
  });

  it('a collection of this key whose manifest opens for nobody is never left out in silence', async () => {
    const folder = copyOf();
    const before = await open(folder);
    const snapshot = await Array.fromAsync((await before.collection('prints')).snapshot());
    await before.close();
    // Whoever has a token to write can commit this, without the key.
    const commitGarbage = async (...names: string[]) => {
      const store = await openStore(folder);
      for (const name of names) {
        const { version } = await store.getCollection(name);
        await store.commit(name, { expected: version, manifest: new Uint8Array(100) });
      }
      await store.close();
    };
    await commitGarbage('prints');
    // A store that opens tidies its catalogue.
    const contents = () => filesOf(folder).filter((file) => !file.startsWith('catalogue.'));
    const damaged = contents();
    await assert.rejects(repair(folder), { code: 'DAMAGED', message: /no manifest of prints .* snapshot .* --into/ });
    assert.deepEqual(contents(), damaged);
    assert.deepEqual([...besides(folder, 'repair'), ...besides(folder, 'damaged')], []);
    const report = await repair(folder, { into: `${folder}-new` });
    assert.equal(report.complete, false);
    assert.deepEqual(report.withoutManifest, ['prints']);
    const [prints, others] = [['prints'], ['faces', 'marks']].map(
      (names) => new Map(names.map((name) => [name, oracles.get(name)!])),
    );
    await check(report, {}, others);
    assert.deepEqual(contents(), damaged);
    // The next steps that it names.
    const db = await connect(`file:${folder}`, { key, threads: 1 });
    assert.equal(await (await db.restore('again', snapshot)).count(), prints.get('prints')!.size);
    await db.deleteCollection('prints');
    const restored = await db.restore('prints', snapshot);
    await checkRecords(restored, await Array.fromAsync(restored.list()), prints.get('prints')!);
    assert.equal(await restored.count(), prints.get('prints')!.size);
    await db.close();
    // Where there is nothing else, a new folder would be empty.
    await commitGarbage('again', 'faces', 'prints', 'marks');
    await assert.rejects(repair(folder, { into: `${folder}-empty` }), { code: 'DAMAGED' });
    assert.ok(!existsSync(`${folder}-empty`));
  });

  it('says before it reads everything that nothing can be written there', { skip: isRoot && ROOT_MAY }, async () => {
    const folder = join(copyOf(), '..', `locked-${copies}`, 'gallery');
    cpSync(original, folder, { recursive: true });
    flip(only(folder, 'blocks', '1-')[0], 5000);
    for (const path of [folder, dirname(folder)]) {
      chmodSync(path, 0o500);
      await assert.rejects(repair(folder), (error: HersError) => {
        assert.equal(error.code, 'STORAGE');
        assert.ok(error.message.startsWith(`${path} is read-only`), error.message);
        assert.match(error.message, /--into/);
        return true;
      });
      chmodSync(path, 0o700);
    }
  });

  it('refuses a folder that is in use, one that is no gallery, and a place that is taken', async () => {
    const folder = copyOf();
    flip(only(folder, 'blocks', '1-')[0], 5000);
    const store = await openStore(folder);
    await assert.rejects(repair(folder), { code: 'LOCKED' });
    await store.close();
    await assert.rejects(repair(parent), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(repair(join(parent, 'nowhere')), { code: 'NOT_FOUND' });
    await assert.rejects(repair(folder, { into: original }), { code: 'ALREADY_EXISTS' });
  });

  it('into a new folder leaves the damaged one where it is', async () => {
    const folder = copyOf();
    unlinkSync(join(folder, 'catalogue.db'));
    const damaged = filesOf(folder);
    const report = await repair(folder, { into: `${folder}-new` });
    assert.equal(report.folder, `${folder}-new`);
    assert.equal(report.backup, undefined);
    exactly(report);
    assert.deepEqual(filesOf(folder), damaged);
    await check(report);
  });

  it('versions that a repaired copy has are not missing, those of a copy that is gone are', async () => {
    const folder = copyOf();
    const [path] = only(folder, 'vault', '2-');
    flip(path, entriesIn(path).filter(({ kind }) => kind === 1)[200].at + 40);
    const { folder: copy } = await repair(folder, { into: `${folder}-copy` });
    const versions = versionsAt(folder);
    const db = await connect(`file:${copy}`, { key, threads: 1, versions });
    await (await db.collection('prints')).upsert(record('later', 1));
    await db.close();
    renameSync(copy, `${copy}-away`);
    assert.equal(of(await repair(folder, { into: `${folder}-second` }), 'prints').missingVersions, 2);
    renameSync(`${copy}-away`, copy);
    assert.equal(of(await repair(folder), 'prints').missingVersions, 0);
    const again = await open(folder);
    await (await again.collection('prints')).upsert(record('after', 1));
    await again.close();
  });

  it('after a rotation of the key, with records under both', async () => {
    const folder = copyOf();
    const db = await open(folder);
    const faces = await db.collection('faces');
    const stop = new AbortController();
    const rotation = faces.rotateKey({ signal: stop.signal, onProgress: () => stop.abort() });
    await rotation.catch(() => {}); // three blocks are one step, so it may have ended
    await db.close();
    unlinkSync(join(folder, 'catalogue.db'));
    const report = await repair(folder);
    exactly(report);
    await check(report);
  });

  it('a history that goes on from what was seen is accepted', async () => {
    const folder = copyOf();
    const [path] = only(folder, 'vault', '2-');
    const { at } = entriesIn(path).filter(({ kind }) => kind === 1)[200];
    flip(path, at + 40);
    const report = await repair(folder);
    assert.equal(of(report, 'prints').version, of(report, 'prints').found + 1);
    const db = await open(folder);
    const prints = await db.collection('prints');
    await prints.upsert(record('after', 1));
    await db.close();
  });

  it('a collection that is deleted stays deleted', async () => {
    const folder = copyOf();
    const before = join(`${folder}-before`);
    cpSync(folder, before, { recursive: true });
    const db = await open(folder);
    await db.deleteCollection('prints');
    await db.close();
    // An older catalogue that still has it, and files of it that came back with that.
    for (const name of ['catalogue.db', 'catalogue.sums']) cpSync(join(before, name), join(folder, name));
    for (const path of only(before, 'vault', '2-')) cpSync(path, join(folder, 'vault', basename(path)));
    const report = await repair(folder);
    assert.equal(of(report, 'prints'), undefined);
    assert.equal(report.complete, true);
    await check(report, {}, new Map([['faces', oracles.get('faces')!]]));
  });

  it('killed at any moment, it can be run again', async () => {
    const folder = copyOf();
    unlinkSync(join(folder, 'catalogue.db'));
    const damaged = filesOf(folder);
    for (const ms of [250, 350, 450, 550, 650, 800, 1000]) {
      await killed(folder, ms);
      if (existsSync(`${folder}.seen.json`) && !besides(folder, 'damaged').length)
        assert.deepEqual(filesOf(folder), damaged);
    }
    const report = await repair(folder);
    exactly(report);
    await check(report);
    assert.deepEqual(besides(folder, 'repairing'), []);
  });

  it('goes on where it was stopped between its two renames', async () => {
    const folder = copyOf();
    unlinkSync(join(folder, 'catalogue.db'));
    // What an earlier one left goes; a folder of somebody else stays.
    const [left, foreign] = ['0123456789ab', 'notes'].map((mark) => `${folder}.repairing-${mark}`);
    for (const path of [left, foreign]) mkdirSync(path);
    const { backup } = await repair(folder);
    assert.deepEqual([left, foreign].map(existsSync), [false, true]);
    renameSync(folder, `${folder}.repaired-0123456789ab`);
    const other = `${folder}.repaired-ba9876543210`;
    mkdirSync(other);
    await assert.rejects(repair(folder), {
      code: 'ALREADY_EXISTS',
      message: /rename the one that is right/,
    });
    assert.ok(!existsSync(folder));
    rmSync(other, { recursive: true });
    const report = await repair(folder);
    assert.equal(report.outcome, 'finished');
    assert.equal(report.backup, backup);
    exactly(report);
    await check(report);
  });
});

async function killed(folder: string, afterMs: number): Promise<void> {
  const script = `
    import { repairGallery } from ${JSON.stringify(import.meta.resolve('./repair.node.ts'))};
    await repairGallery({ folder: process.argv[1], key: Buffer.from(process.argv[2], 'hex'), threads: 1 });
  `;
  const seed = Buffer.from(key.reveal()).toString('hex');
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, folder, seed], {
    stdio: 'ignore',
    env: { ...process.env, TMPDIR: parent }, // what is killed does not tidy up
  });
  setTimeout(() => child.kill('SIGKILL'), afterMs);
  await once(child, 'close');
}
