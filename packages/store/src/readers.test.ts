// Processes that read a folder while another writes: they see the state of one commit, never block
// the writer, and survive changes to its files.
//
// Long: store.test.ts is the short form.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { ReferenceKernel } from '@hers/scan';
import { HersError } from '@hers/service';
import { encodeQuery, expectedResponses, Samples } from '@hers/service/samples';
import { checkFolder, runChild, withFolder } from '../testing/crash.ts';
import { checkHolds, type Expected, inSnapshot, Script } from '../testing/crash-script.ts';
import { hex } from './base/bytes.ts';
import { type FolderStore, openStore } from './store.ts';

const kernel = async () => new ReferenceKernel();
const CHILD = fileURLToPath(new URL('../testing/crash-child.ts', import.meta.url));
const SHARE = 0.15;
const STEPS = 30;

/** A process that runs steps of a script. */
function write(folder: string, seed: number, first: number, steps: number): ChildProcess {
  const args = [CHILD, folder, ...[seed, SHARE, first, steps].map(String)];
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
}

const isCode = (error: unknown, ...codes: string[]) => error instanceof HersError && codes.includes(error.code);

/** States of the script's collection by their manifests. */
function statesOf(script: Script): Map<string, Expected> {
  const states = new Map<string, Expected>();
  for (let i = 0; i <= STEPS; i++) {
    const manifest = script.after(i).get('faces')?.manifest;
    if (manifest) states.set(hex(manifest), script.after(i));
  }
  return states;
}

/** Reads everything once, and compares it with a committed state. Returns what it saw. */
async function look(reader: FolderStore, states: ReadonlyMap<string, Expected>): Promise<'right' | 'overtaken'> {
  const { version, manifest } = await reader.getManifest('faces');
  const state = states.get(hex(manifest))?.get('faces');
  assert.ok(state, 'a manifest that was never committed');
  const queries = [new Samples(7).query({ width: 2 })];
  try {
    const responses = await Array.fromAsync(
      reader.search('faces', { version, queries: queries.map((query) => encodeQuery(query)) }),
    );
    const expected = expectedResponses(state.blocks.values(), queries);
    assert.deepEqual(responses.map(hex).sort(), expected.map(hex).sort(), 'a search');
    for (const { blockId } of state.blocks.values()) await Array.fromAsync(reader.getBlock('faces', blockId));
    const handles = [...state.records.values()].map(({ handle }) => handle);
    const records = await Array.fromAsync(reader.getRecords('faces', handles));
    const possible = new Set(
      [...states.values()].flatMap((each) => [...each.get('faces')!.records.values()].map(({ sealed }) => hex(sealed))),
    );
    for (const { sealed } of records) assert.ok(possible.has(hex(sealed)), 'a record that was never committed');
    return 'right';
  } catch (error) {
    // The collection has changed since, as a server would report too.
    if (isCode(error, 'STALE', 'NOT_FOUND')) return 'overtaken';
    throw error;
  }
}

it('a reader sees states that were committed, and nothing else, whatever the writer does', () =>
  withFolder(async (parent) => {
    const folder = join(parent, 'store');
    const script = new Script(21, SHARE);
    const first = await openStore(folder, { kernel });
    await script.step(0).run(first);
    await script.step(1).run(first);
    await first.close();
    const states = statesOf(script);
    const reader = await openStore(folder, { kernel, mode: 'read' });
    const writer = write(folder, 21, 2, STEPS - 2);
    const ended = once(writer, 'close');
    let seen = { right: 0, overtaken: 0 };
    const manifests = new Set<string>();
    while (writer.exitCode === null) {
      seen = { ...seen, [await look(reader, states)]: 0 };
      manifests.add(hex((await reader.getManifest('faces')).manifest));
      const copy = await openStore(join(parent, 'copy'), { kernel });
      try {
        await copy.restore('faces', reader.snapshot('faces'));
        const { manifest } = await copy.getManifest('faces');
        await checkHolds(copy, new Map([['faces', inSnapshot(states.get(hex(manifest))!.get('faces')!)]]));
        await copy.deleteCollection('faces');
      } finally {
        await copy.close();
      }
      for await (const { file, damage } of reader.scrub()) assert.equal(damage, undefined, file);
    }
    assert.deepEqual(await ended, [0, null]);
    assert.ok(manifests.size > 1, 'it saw the writer go on');
    await checkHolds(reader, script.after(STEPS));
    await reader.close();
    const left = readdirSync(folder);
    assert.ok(!left.includes('lost+found'), left.join());
  }));

it('a snapshot that was begun before a purge is of the state before it, and does not keep commits waiting', () =>
  withFolder(async (parent) => {
    const folder = join(parent, 'store');
    const script = new Script(22, 1);
    const store = await openStore(folder, { kernel });
    for (let i = 0; i < 6; i++) await script.step(i).run(store);
    const reader = await openStore(folder, { kernel, mode: 'read' });
    const pieces = reader.snapshot('faces')[Symbol.asyncIterator]();
    const begun = [(await pieces.next()).value as Uint8Array];
    const purging = store.purge('faces'); // ends with the reader
    await script.step(7).run(store);
    await script.step(8).run(store);
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (let next = await pieces.next(); !next.done; next = await pieces.next()) begun.push(next.value);
    await purging;
    const copy = await openStore(join(parent, 'copy'), { kernel });
    await copy.restore('faces', begun);
    await checkHolds(copy, new Map([['faces', script.after(6).get('faces')!]]));
    await copy.close();
    await checkHolds(reader, script.after(9));
    await reader.close();
    await checkHolds(store, script.after(9));
    await store.close();
  }));

it('a writer that is killed while others read leaves a folder that opens, again and again', () =>
  withFolder(async (folder) => {
    const script = new Script(25, 0.05);
    const first = await openStore(folder, { kernel });
    await script.step(0).run(first);
    await first.close();
    const reader = await openStore(folder, { kernel, mode: 'read' });
    // The reader keeps open what it reads together with what the writer is about to remove.
    for (let i = 0, held = 1; i < 12; i++) {
      const killAfter = 40 + 15 * i;
      const run = await runChild({ folder, seed: 25, share: 0.05, first: held, steps: 40, killAfter });
      held = await checkFolder(folder, script, run.acknowledged);
      await checkHolds(reader, script.after(held));
    }
    await reader.close();
  }));

it('a thread that is ended with the folder open leaves it whole', () =>
  withFolder(async (folder) => {
    const script = new Script(26, SHARE);
    for (let i = 0; i < 4; i++) {
      const program = `const { parentPort } = require('node:worker_threads');
        Promise.all([import(${JSON.stringify(new URL('./store.ts', import.meta.url).href)}), import(${JSON.stringify(new URL('../testing/crash-script.ts', import.meta.url).href)})]).then(async ([{ openStore }, { Script }]) => {
          const store = await openStore(${JSON.stringify(folder)});
          await new Script(26, ${SHARE}).step(${i}).run(store);
          parentPort.postMessage('done');
        });`;
      const worker = new Worker(program, { eval: true });
      await once(worker, 'message');
      await worker.terminate();
      const store = await openStore(folder, { kernel, onBackgroundError: () => {} });
      await checkHolds(store, script.after(i + 1));
      await store.close();
      await (await openStore(folder, { kernel, onBackgroundError: assert.ifError })).close();
    }
  }));

it('many readers at once, and none of them is in the way of the next writer', () =>
  withFolder(async (folder) => {
    const script = new Script(23, SHARE);
    let store = await openStore(folder, { kernel });
    await script.step(0).run(store);
    const readers = await Promise.all(Array.from({ length: 8 }, () => openStore(folder, { kernel, mode: 'read' })));
    for (let i = 1; i < 8; i++) {
      await script.step(i).run(store);
      if (i % 3 === 0) {
        await store.close();
        store = await openStore(folder, { kernel });
      }
      for (const reader of readers) await checkHolds(reader, script.after(i + 1));
    }
    await store.close();
    for (const reader of readers) await checkHolds(reader, script.after(8));
    await assert.rejects(script.step(8).run(readers[0]), (error) => isCode(error, 'STORAGE'));
    for (const reader of readers) await reader.close();
    assert.deepEqual(
      readdirSync(folder).filter((file) => /tmp$/.test(file)),
      [],
    );
  }));

it('a second writer is told which process the first is, and may read', () =>
  withFolder(async (folder) => {
    const script = new Script(24, SHARE);
    const store = await openStore(folder, { kernel });
    await script.step(0).run(store);
    const program = `import { openStore } from ${JSON.stringify(new URL('./store.ts', import.meta.url).href)};
      await openStore(${JSON.stringify(folder)}).catch((error) => console.log(error.message));
      const reader = await openStore(${JSON.stringify(folder)}, { mode: 'read' });
      console.log((await reader.listCollections()).length);
      console.log(reader.writer());
      await reader.close();`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const output = (await Array.fromAsync(child.stdout.setEncoding('utf8'))).join('');
    const writer = `process ${process.pid}, since [-0-9T:.]+Z`;
    assert.match(output, new RegExp(`is being written by ${writer}: .*\n1\n${writer}\n$`));
    assert.equal(store.writer(), undefined);
    await using reader = await openStore(folder, { mode: 'read' });
    assert.equal(reader.writer(), 'this process');
    // The file that names it may be of a process that has ended, of another machine, or broken.
    const left = join(folder, 'writer');
    const name = (text: string) => writeFileSync(left, text);
    const ended = spawnSync(process.execPath, ['-e', '']).pid;
    name(JSON.stringify({ process: ended, host: hostname(), since: 'then' }));
    assert.equal(reader.writer(), undefined);
    name(JSON.stringify({ process: ended, host: 'elsewhere', since: 'then' }));
    assert.equal(reader.writer(), `process ${ended} on elsewhere, since then`);
    for (const broken of ['', '{"process": 12', '{"process": "first"}']) {
      name(broken);
      assert.equal(reader.writer(), undefined);
      await assert.rejects(openStore(folder), (error) => isCode(error, 'LOCKED') && /another process/.test(`${error}`));
    }
    name(JSON.stringify({ process: process.pid, host: hostname(), since: 'then' }));
    await store.close();
    assert.equal(reader.writer(), undefined);
  }));

it('a reader of a folder that is not there makes none', () =>
  withFolder(async (parent) => {
    const folder = join(parent, 'nothing');
    await assert.rejects(openStore(folder, { mode: 'read' }), HersError);
    assert.deepEqual(readdirSync(parent), []);
  }));
