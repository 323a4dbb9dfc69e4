// The content of a folder: every file by its path and the hash of its content, so that no file
// disappears unnoticed.

import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

export const KINDS = [
  'format',
  'lock',
  'writer',
  'reserve',
  'catalogue.db',
  'catalogue.db-wal',
  'catalogue.db-shm',
  'catalogue.sums',
  'catalogue.journal',
  'pack',
  'block',
  'segment',
  'lost+found',
] as const;
export type Kind = (typeof KINDS)[number];

export interface Item {
  readonly path: string;
  readonly kind: Kind | undefined;
  readonly type: 'file' | 'link' | 'pipe';
  readonly size: number;
  /** Of its content, or of a link's target. */
  readonly hash: string;
}

export function kindOf(path: string): Kind | undefined {
  if (path.startsWith('lost+found/')) return 'lost+found';
  const inside = /^(?:vault\/.*\.(pack)|blocks\/.*\.(block)|segments\/.*\.(segment))$/.exec(path);
  if (inside) return (inside[1] ?? inside[2] ?? inside[3]) as Kind;
  return KINDS.find((kind) => kind === path);
}

const hashOf = (content: string | Uint8Array) => createHash('sha256').update(content).digest('hex').slice(0, 32);

export function inventory(folder: string, inside = ''): Item[] {
  const items: Item[] = [];
  for (const name of readdirSync(join(folder, inside)).sort()) {
    const path = inside === '' ? name : `${inside}/${name}`;
    const full = join(folder, path);
    const stat = lstatSync(full);
    if (stat.isDirectory()) items.push(...inventory(folder, path));
    else items.push({ path, kind: kindOf(path), size: stat.size, ...contentOf(full, stat) });
  }
  return items;
}

function contentOf(path: string, stat: { isSymbolicLink(): boolean; isFile(): boolean }): Pick<Item, 'type' | 'hash'> {
  // Large, and nothing but zeros.
  if (path.endsWith('/reserve') && stat.isFile()) return { type: 'file', hash: '' };
  if (stat.isSymbolicLink()) return { type: 'link', hash: hashOf(readlinkSync(path)) };
  return stat.isFile() ? { type: 'file', hash: hashOf(readFileSync(path)) } : { type: 'pipe', hash: '' };
}

/**
 * Files without records: the writer's name, the reserve, files that SQLite keeps while it is open,
 * and unfinished files.
 */
const FLEETING = new Set<Kind | undefined>(['lock', 'writer', 'reserve', 'catalogue.db-shm']);
const UNFINISHED = /\.(?:building|tmp)(?:\.|$)|^lost\+found\/ledger\.json$|^catalogue\.db-journal$/;
const CATALOGUE = /^catalogue\.(?:db|db-wal|sums|journal)$/;

/**
 * Files that were there before and are gone now. A store that was opened for writing may replace
 * the files of the catalogue; `isUntouched` says that it was not.
 */
export function missing(before: readonly Item[], after: readonly Item[], isUntouched: boolean): string[] {
  const left = Map.groupBy(after, ({ type, hash }) => `${type} ${hash}`);
  return before
    .filter(({ path, kind, type, size }) => {
      const isEmpty = type === 'file' && size === 0;
      return !isEmpty && !FLEETING.has(kind) && !UNFINISHED.test(path) && (isUntouched || !CATALOGUE.test(path));
    })
    .filter(({ type, hash }) => left.get(`${type} ${hash}`)?.pop() === undefined)
    .map(({ path }) => path);
}
