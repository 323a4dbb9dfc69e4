// The names of folders while one is repaired, so that whatever crashes, what is there says how far
// it came:
//
//   gallery.repairing-…   not complete: nothing is lost with it
//   gallery.repaired-…    complete and verified
//   gallery.damaged-…     as it was before
//
// The damaged folder gives its name away when the new one is complete. Where a crash came between
// the two renames, running again does the second.

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { HersError } from '@hers/service';
import { syncFolder } from '@hers/service/target';

const MARK_BYTES = 6;
const MARK = /^[0-9a-f]{12}$/;

export class RepairFolder {
  /** What the new folder will be called. */
  readonly target: string;
  readonly building: string;
  readonly #isInPlace: boolean;
  readonly #mark = randomBytes(MARK_BYTES).toString('hex');

  /** In the place of `folder`, or somewhere else. */
  constructor(folder: string, into?: string) {
    this.target = into ?? folder;
    this.#isInPlace = into === undefined;
    this.building = `${this.target}.repairing-${this.#mark}`;
  }

  async begin(): Promise<void> {
    if (!this.#isInPlace && existsSync(this.target) && (await readdir(this.target)).length > 0)
      throw new HersError('ALREADY_EXISTS', `${this.target} is there already, and not empty; choose another folder`);
    await mkdir(dirname(this.building), { recursive: true });
    await mkdir(this.building, { mode: 0o700 });
  }

  async abandon(): Promise<void> {
    await rm(this.building, { recursive: true, force: true });
  }

  /** Gives the new folder its name; returns where the damaged one is, if that had to move. */
  async finish(): Promise<string | undefined> {
    await syncFolder(this.building);
    if (!this.#isInPlace) {
      await renamed(this.building, this.target);
      return undefined;
    }
    const complete = `${this.target}.repaired-${this.#mark}`;
    const backup = freeName(`${this.target}.damaged-${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}`);
    await renamed(this.building, complete);
    await renamed(this.target, backup);
    await renamed(complete, this.target);
    return backup;
  }
}

function freeName(wanted: string): string {
  let name = wanted;
  for (let i = 2; existsSync(name); i++) name = `${wanted}-${i}`;
  return name;
}

async function renamed(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    throw new HersError(
      'STORAGE',
      `${from} cannot be renamed to ${to} (${(error as Error).message}); name another folder for the repaired gallery`,
    );
  }
  await syncFolder(dirname(to));
}

async function beside(folder: string, kind: string): Promise<string[]> {
  const start = `${basename(folder)}.${kind}-`;
  const names = await readdir(dirname(folder)).catch(() => []);
  return names.filter((name) => name.startsWith(start)).map((name) => join(dirname(folder), name));
}

const isMarked = (path: string) => MARK.test(path.slice(path.lastIndexOf('-') + 1));

/**
 * Removes what repairs left that did not end, which is for who holds the lock of the folder;
 * returns those that are complete, and not needed.
 */
export async function clearLeftovers(folder: string): Promise<string[]> {
  for (const path of (await beside(folder, 'repairing')).filter(isMarked))
    await rm(path, { recursive: true, force: true });
  return (await beside(folder, 'repaired')).filter(isMarked);
}

/**
 * Goes on with a repair that was complete, and stopped between the two renames. Returns where the
 * damaged folder is, or undefined where there is nothing to go on with.
 */
export async function finishRenames(folder: string): Promise<string | undefined> {
  if (existsSync(folder)) return undefined;
  const complete = (await beside(folder, 'repaired')).filter(isMarked);
  const [backup] = (await beside(folder, 'damaged')).sort().reverse();
  if (complete.length === 0 || backup === undefined) return undefined;
  if (complete.length > 1)
    throw new HersError(
      'ALREADY_EXISTS',
      `there is no ${folder}, and there are ${complete.join(' and ')}: rename the one that is right to ${folder}`,
    );
  await renamed(complete[0], folder);
  return backup;
}
