// What may be lost by damage, and nothing else. In one place, because this is what the campaign
// admits:
//
// - A record of a vault: when the bytes of its entry are damaged that the catalogue names. Blocks
//   are made again from records, so damage to blocks and segments loses nothing.
// - A record of homomorphic enrolment: when bytes of its block are damaged, or of the list that
//   says who is in which slot. Where several lists of a block are damaged, all of the block:
//   how many slots each of them had is not known any more.
// - The head of a segment is in the catalogue too: only when that is hit as well, its blocks may be
//   lost.
// - A list of a vault says which records there are, and the catalogue does too: only when both are
//   hit, the records of the list's block may be lost.
// - The manifest is in the catalogue and in the journal: only when both are hit, everything may be
//   lost, and only then a repair may refuse, or bring back an earlier state; it has to say so.
// - What a symbolic link leads to is somebody else's: a repair does not follow it, so a link counts
//   as damage to all of the file, also where it leads to the file itself.
// - A number in `format` that a flipped bit makes a higher one is that of a newer program, which
//   everything refuses, a repair too.
// - A lock that is damaged is refused, also by a repair in place: whether somebody else writes
//   cannot be told. Repairing into another folder works.

import { lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BlockContent, CollectionContent, Place } from './contents.ts';
import type { Harm } from './harm.ts';
import type { Kind } from './inventory.ts';

export interface Losses {
  /** By collection, ids. */
  readonly mayLose: ReadonlyMap<string, ReadonlySet<string>>;
  /** Everything may be lost, if it is said. */
  readonly isAllAdmitted: boolean;
  readonly isLockHit: boolean;
}

const DATABASE: readonly Kind[] = ['catalogue.db', 'catalogue.db-wal'];

/**
 * Compares places of a gallery with what is there now; what was moved by the damage counts as
 * there.
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

/** What the damage may have lost of each collection. */
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
  return {
    mayLose,
    isAllAdmitted: isDatabaseHit && isHit(['catalogue.journal']),
    isLockHit: isHit(['lock']),
  };
}

function lostOf({ records, blocks }: CollectionContent, comparison: Comparison, isDatabaseHit: boolean): Set<string> {
  const lost = new Set<string>();
  for (const [id, places] of records) if (!places.some((place) => comparison.isWhole(place))) lost.add(id);
  const isVault = records.size > 0;
  for (const block of blocks)
    for (const id of isVault ? unnamedIn(block, comparison, isDatabaseHit) : lostIn(block, comparison, isDatabaseHit))
      lost.add(id);
  return lost;
}

const allOf = ({ lists }: BlockContent) => lists.flatMap(({ ids }) => ids);

const brokenLists = ({ lists }: BlockContent, comparison: Comparison) =>
  lists.filter(({ places }) => !places.some((place) => comparison.isWhole(place)));

/** Records of a vault that nothing may name any more. */
function unnamedIn(block: BlockContent, comparison: Comparison, isDatabaseHit: boolean): string[] {
  return isDatabaseHit && brokenLists(block, comparison).length > 0 ? allOf(block) : [];
}

/** Records of a block that is all there is of them. */
function lostIn(block: BlockContent, comparison: Comparison, isDatabaseHit: boolean): string[] {
  const isHeadless = isDatabaseHit && block.head !== undefined && !comparison.isWhole(block.head);
  if (isHeadless || !block.places.every((place) => comparison.isWhole(place))) return allOf(block);
  const broken = brokenLists(block, comparison);
  return broken.length > 1 ? allOf(block) : broken.flatMap(({ ids }) => ids);
}
