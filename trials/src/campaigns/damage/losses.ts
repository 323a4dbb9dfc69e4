// What damage may destroy, and nothing else. In one place, because this is what the campaign
// accepts:
//
// - A record: if the damage hits the entry that the catalogue names. Blocks are rebuilt
//   from records, so damage to blocks and segments loses nothing.
// - The header of a segment is in the catalogue too. Only if both are hit, its blocks may be lost.
// - A list names its records, and so does the catalogue. Only if both are hit, the
//   records of the list's block may be lost.
// - The manifest is in the catalogue and in the journal. Only if both are hit, everything may be
//   lost. Only then may a repair refuse, or restore an earlier state, which it must report.
// - The target of a symbolic link is foreign, and a repair does not follow it. So a link counts as
//   damage to the whole file, even if it points to the file itself.
// - A flipped bit may raise the number in `format` to that of a newer version. Everything refuses
//   such a folder, including a repair.
// - A damaged lock is refused, also by a repair in place: nothing can tell whether another process
//   writes. Repairing into another folder works.

import { lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BlockContent, CollectionContent, Place } from './contents.ts';
import type { Harm } from './harm.ts';
import type { Kind } from './inventory.ts';

export interface Losses {
  /** Ids by collection. */
  readonly mayLose: ReadonlyMap<string, ReadonlySet<string>>;
  /** Everything may be lost, if that is reported. */
  readonly isAllAdmitted: boolean;
  readonly isLockHit: boolean;
}

const DATABASE: readonly Kind[] = ['catalogue.db', 'catalogue.db-wal'];

/**
 * Compares places of a gallery with the folder now. Data that the damage moved counts as present.
 */
class Comparison {
  readonly #original: string;
  readonly #folder: string;
  readonly #moves: ReadonlyMap<string, string>;
  readonly #files = new Map<string, Buffer>();

  constructor(original: string, folder: string, harms: readonly Harm[]) {
    this.#original = original;
    this.#folder = folder;
    // Only where nothing else has happened to one of them since.
    const swaps = harms.length === 1 ? harms.filter(({ name }) => name === 'swapped') : [];
    this.#moves = new Map(swaps.flatMap(({ path, other }) => [[path, other!] as const, [other!, path] as const]));
  }

  #read(folder: string, path: string): Buffer {
    const full = join(folder, path);
    let bytes = this.#files.get(full);
    if (!bytes) {
      const isFile = lstatSync(full, { throwIfNoEntry: false })?.isFile();
      this.#files.set(full, (bytes = isFile ? readFileSync(full) : Buffer.alloc(0)));
    }
    return bytes;
  }

  isWhole({ path, from, to }: Place): boolean {
    const was = this.#read(this.#original, path).subarray(from, to);
    const now = this.#read(this.#folder, this.#moves.get(path) ?? path).subarray(from, to);
    return was.equals(now);
  }
}

/** What the damage may have destroyed in each collection. */
export function lossesOf(
  contents: readonly CollectionContent[],
  original: string,
  folder: string,
  harms: readonly Harm[],
): Losses {
  const comparison = new Comparison(original, folder, harms);
  const isHit = (kinds: readonly Kind[]) => harms.some(({ kind }) => kinds.includes(kind));
  const isDatabaseHit = isHit(DATABASE);
  const mayLose = new Map(
    contents.map((content) => [content.name, lostOf(content, comparison, isDatabaseHit)] as const),
  );
  return { mayLose, isAllAdmitted: isDatabaseHit && isHit(['catalogue.journal']), isLockHit: isHit(['lock']) };
}

function lostOf({ records, blocks }: CollectionContent, comparison: Comparison, isDatabaseHit: boolean): Set<string> {
  const lost = new Set<string>();
  for (const [id, places] of records) if (!places.some((place) => comparison.isWhole(place))) lost.add(id);
  for (const block of blocks) for (const id of unnamedIn(block, comparison, isDatabaseHit)) lost.add(id);
  return lost;
}

/** Records that nothing may name any more. */
function unnamedIn({ list }: BlockContent, comparison: Comparison, isDatabaseHit: boolean): readonly string[] {
  return isDatabaseHit && !list.places.some((place) => comparison.isWhole(place)) ? list.ids : [];
}
