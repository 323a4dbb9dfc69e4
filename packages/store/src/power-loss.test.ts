// Power loss: records the steps of a run, and replays them up to any of them with unsynced data
// lost, in several ways. SQLite keeps its own promise, so the catalogue is taken as of its last
// commit; everything it refers to must exist.

import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { it } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import { Samples } from '@hers/service/samples';
import { withFolder } from '../testing/crash.ts';
import { checkHolds, Script, stepsHeld } from '../testing/crash-script.ts';
import type { Step } from './files/disk.ts';
import { openStore, openWatched } from './store.ts';

const kernel = async () => new ReferenceKernel();
const CATALOGUE_FILES = ['catalogue.db', 'catalogue.db-wal', 'catalogue.sums'];
const STEPS = 20;
const SHARE = 0.08;

/** A file as the disk may have it: what was written, and which part of it is synced. */
interface Inode {
  written: Buffer;
  synced: Buffer;
}

/** What the operating system has in memory, and what is synced to disk. */
class LostDisk {
  readonly names = new Map<string, Inode>();
  readonly syncedNames = new Map<string, Inode>();
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  apply(step: Step): void {
    const inode = this.names.get(step.path);
    switch (step.kind) {
      case 'create':
        this.names.set(step.path, { written: Buffer.alloc(0), synced: Buffer.alloc(0) });
        break;
      case 'write': {
        const file = inode ?? { written: Buffer.alloc(0), synced: Buffer.alloc(0) };
        const length = Math.max(file.written.length, step.at + step.bytes.length);
        const next = Buffer.concat([file.written], length);
        next.set(step.bytes, step.at);
        file.written = next;
        this.names.set(step.path, file);
        break;
      }
      case 'sync':
        if (inode) inode.synced = inode.written;
        break;
      case 'truncate':
        if (inode) inode.written = inode.synced = inode.written.subarray(0, step.length);
        break;
      case 'adopt': {
        const bytes = readFileSync(join(this.#folder, step.path));
        const file = { written: bytes, synced: bytes };
        this.names.set(step.path, file);
        this.syncedNames.set(step.path, file);
        break;
      }
      case 'rename':
        this.names.delete(step.path);
        if (inode) this.names.set(step.to, inode);
        break;
      case 'remove':
        this.names.delete(step.path);
        break;
      case 'sync-folder':
        for (const path of this.syncedNames.keys())
          if (dirname(path) === step.path && !this.names.has(path)) this.syncedNames.delete(path);
        for (const [path, file] of this.names) if (dirname(path) === step.path) this.syncedNames.set(path, file);
        break;
      case 'commit':
        break;
    }
  }

  /** The files after a power loss, in one of the possible outcomes. */
  *files(way: 'least' | 'names' | 'random', chance: Samples): Generator<[string, Buffer]> {
    for (const path of new Set([...this.names.keys(), ...this.syncedNames.keys()])) {
      const newest = way === 'names' || (way === 'random' && chance.below(2) === 1);
      const file = (newest ? this.names : this.syncedNames).get(path);
      if (!file) continue;
      if (way !== 'random') yield [path, file.synced];
      else yield [path, this.#torn(file, chance)];
    }
  }

  /** Data written since the last sync exists up to some point, or as zeros. */
  #torn({ written, synced }: Inode, chance: Samples): Buffer {
    if (written === synced) return synced;
    const torn = Buffer.from(
      written.subarray(0, synced.length + chance.below(1 + Math.max(0, written.length - synced.length))),
    );
    if (chance.below(3) === 0) torn.fill(0, synced.length);
    torn.set(synced.subarray(0, torn.length));
    return torn;
  }
}

/** Runs the script, and calls `visit` after every step of the disk with what could be lost. */
async function record(
  folder: string,
  script: Script,
  visit: (disk: LostDisk, step: Step, catalogue: ReadonlyMap<string, Buffer>, acknowledged: number) => void,
): Promise<void> {
  const disk = new LostDisk(folder);
  let catalogue = new Map<string, Buffer>();
  let acknowledged = 0;
  const after = (step: Step) => {
    disk.apply(step);
    if (step.kind === 'commit') {
      const there = CATALOGUE_FILES.filter((file) => existsSync(join(folder, file)));
      catalogue = new Map(there.map((file) => [file, readFileSync(join(folder, file))]));
    }
    visit(disk, step, catalogue, acknowledged);
  };
  const store = await openWatched(folder, { kernel, quietMs: 2 }, { after });
  for (; acknowledged < STEPS; acknowledged++) {
    await script.step(acknowledged).run(store);
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  await store.close();
}

it('after a power loss, the folder holds what was acknowledged', () =>
  withFolder(async (parent) => {
    const folder = join(parent, 'recorded');
    const script = new Script(3, SHARE);
    const chance = new Samples(4);
    const states: { name: string; acknowledged: number }[] = [];
    let seen = 0;
    await record(folder, script, (disk, step, catalogue, acknowledged) => {
      seen++;
      // Every step around commits, renames and removals, and a sample of the rest.
      if ((step.kind === 'write' || step.kind === 'create' || step.kind === 'sync') && chance.below(6) > 0) return;
      const way = (['least', 'names', 'random'] as const)[chance.below(3)];
      const name = join(parent, `${seen} ${way} ${step.kind} ${step.path.replaceAll('/', ' ')}`);
      for (const [path, bytes] of [...disk.files(way, chance), ...catalogue]) {
        if (CATALOGUE_FILES.includes(path) && !catalogue.has(path)) continue;
        mkdirSync(dirname(join(name, path)), { recursive: true });
        writeFileSync(join(name, path), bytes);
      }
      if (!existsSync(name)) mkdirSync(name);
      states.push({ name, acknowledged });
    });
    assert.ok(states.length > 100, `only ${states.length} of ${seen} states were kept`);
    for (const { name, acknowledged } of states) {
      const store = await openStore(name, { kernel });
      try {
        await stepsHeld(store, script, acknowledged);
      } catch (error) {
        throw new Error(`lost at ${name}, after ${acknowledged} steps`, { cause: error });
      } finally {
        await store.close();
      }
      rmSync(name, { recursive: true });
    }
    // Recording did no harm.
    const store = await openStore(folder, { kernel });
    await checkHolds(store, script.after(STEPS));
    await store.close();
    cpSync(folder, join(parent, 'moved'), { recursive: true });
    const moved = await openStore(join(parent, 'moved'), { kernel });
    await checkHolds(moved, script.after(STEPS));
    await moved.close();
  }));
