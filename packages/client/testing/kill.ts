// Kills a process that enrols, deletes, optimizes, rotates keys, changes payloads, and adds and
// drops fields, at random moments, again and again on the same folder. Every time the folder must
// open, everything that was acknowledged must be found by search, and filters must be right.

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect, MasterSeed } from '../src/index.ts';
import { vectorOf } from './client.ts';

export const DIMENSION = 16;
export const BATCH = 700;
export const idOf = (batch: number, i: number) => `${batch}-${i}`;
export const vectorOfBatch = (batch: number, i: number) => vectorOf(batch * BATCH + i, DIMENSION);

export const FIELDS = { batch: 'number', group: 'keyword' } as const;
/** Comes and goes. */
export const LATER = { note: 'keyword' } as const;
export const payloadOf = (batch: number, i: number) => ({ batch, group: `g${i % 7}`, note: `n${i % 3}` });

/** A batch is named in full only when all of it was acknowledged. */
interface Told {
  readonly written: Set<number>;
  readonly deleted: Set<number>;
  /** The second of its records has another payload. */
  readonly changed: Set<number>;
}

async function runAndKill(folder: string, seed: Uint8Array, from: number, afterMs: number, told: Told): Promise<void> {
  const child = spawn(process.execPath, [
    fileURLToPath(new URL('./kill-child.ts', import.meta.url)),
    folder,
    Buffer.from(seed).toString('hex'),
    String(from),
  ]);
  let errors = '';
  let rest = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  child.stdout.setEncoding('utf8').on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop()!;
    for (const line of lines) {
      if (line === 'open') setTimeout(() => child.kill('SIGKILL'), afterMs);
      const [what, batch] = line.split(' ');
      if (what === 'written') told.written.add(Number(batch));
      if (what === 'deleted') told.deleted.add(Number(batch));
      if (what === 'changed') told.changed.add(Number(batch));
    }
  });
  const signal = await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (_, how) => resolve(how));
  });
  if (signal !== 'SIGKILL') throw new Error(`the child ended by itself:\n${errors}`);
}

async function check(folder: string, seed: Uint8Array, told: Told): Promise<void> {
  const db = await connect(`file:${folder}`, { key: seed, threads: 1 });
  try {
    const collection = await db.collection('things');
    const ids = new Set(await Array.fromAsync(collection.list()));
    for (const batch of told.written) {
      for (let i = 1; i < BATCH; i++)
        if (!ids.has(idOf(batch, i))) throw new Error(`record ${idOf(batch, i)} was acknowledged and is gone`);
    }
    for (const batch of told.deleted)
      if (ids.has(idOf(batch, 0))) throw new Error(`record ${idOf(batch, 0)} was deleted and is back`);
    // Takes up what was interrupted.
    if ('note' in (await collection.fields())) await collection.addFields(LATER);
    for (const batch of [...told.written].slice(-6)) {
      const of = { field: 'batch', match: batch } as const;
      const count = (match: string) => collection.count({ filter: { must: [of, { field: 'group', match }] } });
      const [changed, ones] = [await count('changed'), await count('g1')];
      const all = Array.from({ length: BATCH }, (_, i) => i % 7).filter((rest) => rest === 1).length;
      if (changed + ones !== all || (told.changed.has(batch) && changed !== 1))
        throw new Error(`of batch ${batch}, ${changed} records have the new payload and ${ones} the old one`);
      if (!('note' in (await collection.fields()))) continue;
      const notes = await collection.count({ filter: { must: [of, { field: 'note', match: 'n2' }] } });
      if (notes !== Math.floor(BATCH / 3)) throw new Error(`of batch ${batch}, ${notes} records have a note`);
    }
    const samples = [...told.written]
      .flatMap((batch) =>
        [1, BATCH >> 1, BATCH - 1].map((i) => ({ id: idOf(batch, i), vector: vectorOfBatch(batch, i) })),
      )
      .slice(-24);
    const results = await collection.searchBatch(
      samples.map(({ vector }) => vector),
      { limit: 3 },
    );
    results.forEach(({ matches, coverage }, k) => {
      if (!matches.some(({ id }) => id === samples[k].id))
        throw new Error(`record ${samples[k].id} was acknowledged and is not found`);
      if (coverage.searched !== coverage.total) throw new Error('a search did not cover everything');
    });
  } finally {
    await db.close();
  }
}

/** Kills `count` processes on one folder; throws when anything acknowledged is missing. */
export async function killCampaign(
  count: number,
  onProgress?: (kills: number, batches: number) => void,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-kill-'));
  const master = MasterSeed.generate();
  const seed = master.reveal();
  const told: Told = { written: new Set(), deleted: new Set(), changed: new Set() };
  try {
    for (let kills = 0; kills < count; kills++) {
      // A new run begins after the batches that are known, and one more, which may be there in
      // part.
      const from = Math.max(-1, ...told.written) + (kills === 0 ? 1 : 2);
      await runAndKill(folder, seed, from, 20 + Math.random() * 1500, told);
      if (told.written.size > 0) await check(folder, seed, told);
      onProgress?.(kills + 1, told.written.size);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
