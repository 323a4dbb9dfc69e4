// Ways in which a folder can be damaged.

import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Dice } from '../cheating/dice.ts';
import { type Item, inventory, KINDS, type Kind, kindOf } from './inventory.ts';

export const HARMS = [
  'bit',
  'bytes',
  'zeros',
  'cut by one',
  'cut in half',
  'cut to nothing',
  'cut somewhere',
  'garbage behind',
  'swapped',
  'removed',
  'older copy',
  'foreign copy',
  'extra file',
  'folder in its place',
  'pipe in its place',
  'link in its place',
] as const;
export type HarmName = (typeof HARMS)[number];

export interface Harm {
  readonly name: HarmName;
  readonly kind: Kind;
  /** The damaged file; for an extra file, its name. */
  readonly path: string;
  readonly other?: string;
  readonly detail: string;
}

/** The folder to damage, and the sources of other files. */
export interface Scene {
  readonly folder: string;
  /** The same gallery some versions before, and others. */
  readonly older: string;
  readonly foreign: readonly string[];
  /** Beside the folder, for files that are moved away. */
  readonly aside: string;
}

/** A link that points to the file it replaced. */
export const ELSEWHERE = 'to itself, elsewhere';

const RUN_BYTES = 600;

const bytesOf = (dice: Dice, length: number) => Buffer.from(Array.from({ length }, () => dice.below(256)));

class Surgeon {
  readonly #scene: Scene;
  readonly #dice: Dice;
  readonly #items: readonly Item[];

  constructor(scene: Scene, dice: Dice) {
    this.#scene = scene;
    this.#dice = dice;
    this.#items = inventory(scene.folder).filter(({ type }) => type === 'file');
  }

  operate(): Harm {
    const dice = this.#dice;
    const kinds = KINDS.filter((kind) => this.#items.some((item) => item.kind === kind));
    const kind = dice.of(kinds);
    const item = dice.of(this.#items.filter((each) => each.kind === kind));
    const size = item.size;
    // Nothing can be removed from an empty file, and most other damage has no effect on it.
    const possible = HARMS.filter((name) => size > 0 || HARMS.indexOf(name) >= HARMS.indexOf('garbage behind'));
    for (;;) {
      const name = dice.of(possible);
      const done = this.#perform(name, item);
      if (done) return { name, kind: kindOf(done.path ?? item.path) ?? kind, path: item.path, ...done };
    }
  }

  #path(path: string): string {
    return join(this.#scene.folder, path);
  }

  #aside(): string {
    return join(this.#scene.aside, bytesOf(this.#dice, 8).toString('hex'));
  }

  /** Undefined if this damage is impossible for the file. */
  #perform(name: HarmName, item: Item): ({ detail: string } & Partial<Harm>) | undefined {
    const { path, size } = item;
    const dice = this.#dice;
    const full = this.#path(path);
    const cut = (to: number) => {
      truncateSync(full, to);
      return { detail: `to ${to} of ${size} bytes` };
    };
    switch (name) {
      case 'bit': {
        const at = dice.below(size);
        const bit = dice.below(8);
        overwrite(full, (bytes) => {
          bytes[at] ^= 1 << bit;
        });
        return { detail: `${bit} of byte ${at} of ${size}` };
      }
      case 'bytes':
      case 'zeros': {
        const from = dice.below(size);
        const to = Math.min(size, from + 1 + dice.below(RUN_BYTES));
        const content = name === 'zeros' ? Buffer.alloc(to - from) : bytesOf(dice, to - from);
        overwrite(full, (bytes) => bytes.set(content, from));
        return { detail: `${from} … ${to} of ${size}` };
      }
      case 'cut by one':
        return cut(size - 1);
      case 'cut in half':
        return cut(size >> 1);
      case 'cut to nothing':
        return cut(0);
      case 'cut somewhere':
        return cut(dice.below(size));
      case 'garbage behind': {
        const length = 1 + dice.below(dice.of([8, 600, 9000]));
        const isZero = dice.happens(0.3);
        appendFileSync(full, isZero ? Buffer.alloc(length) : bytesOf(dice, length));
        return { detail: `${length} ${isZero ? 'zero' : 'random'} bytes behind ${size}` };
      }
      case 'removed':
        rmSync(full);
        return { detail: '' };
      case 'swapped':
        return this.#swap(item);
      case 'older copy':
        return this.#replace(item, [this.#scene.older]);
      case 'foreign copy':
        return this.#replace(item, this.#scene.foreign);
      case 'extra file':
        return this.#add(item);
      case 'folder in its place':
        renameSync(full, this.#aside());
        mkdirSync(full);
        if (dice.happens(0.5)) writeFileSync(join(full, 'something'), 'else');
        return { detail: '' };
      case 'pipe in its place':
        renameSync(full, this.#aside());
        execFileSync('mkfifo', [full]);
        return { detail: '' };
      case 'link in its place':
        return this.#link(item);
    }
  }

  #swap({ path, kind }: Item): { detail: string; other: string } | undefined {
    const alike = this.#items.filter((each) => each.kind === kind && each.path !== path);
    if (alike.length === 0) return undefined;
    const { path: other } = this.#dice.of(alike);
    const between = this.#aside();
    renameSync(this.#path(path), between);
    renameSync(this.#path(other), this.#path(path));
    renameSync(between, this.#path(other));
    return { detail: `with ${other}`, other };
  }

  /** Replaces it by a file of the same kind from elsewhere, with the same name if there is one. */
  #replace({ path, kind }: Item, folders: readonly string[]): { detail: string } | undefined {
    const from = this.#dice.of(folders);
    const alike = inventory(from).filter((each) => each.kind === kind && each.type === 'file');
    const same = alike.filter((each) => each.path === path);
    if (alike.length === 0) return undefined;
    const chosen = this.#dice.of(same.length > 0 ? same : alike);
    copyFileSync(join(from, chosen.path), this.#path(path));
    return { detail: `${chosen.path} of ${from}, ${chosen.size} bytes` };
  }

  #add({ path, kind }: Item): { detail: string; path: string } | undefined {
    const dice = this.#dice;
    const key = dice.of(['1', '2', '3', '77']);
    const name = bytesOf(dice, 16).toString('hex');
    const extra = dice.of([
      ...(kind === 'pack' || kind === 'lost+found' ? [`vault/${key}-${1 + dice.below(9)}.pack`] : []),
      ...(kind === 'block' || kind === 'lost+found'
        ? [`blocks/${key}-${name}.block`, `blocks/${key}-${name}.block.tmp`]
        : []),
      ...(kind === 'segment' || kind === 'lost+found'
        ? [`segments/${key}-${name}.segment`, `segments/${key}-${name.slice(16)}.building`]
        : []),
      `lost+found/${path.slice(path.lastIndexOf('/') + 1)}`,
      'lost+found/ledger.json',
      'notes.txt',
      'vault/notes.txt',
      'catalogue.db-journal',
      `${path}.tmp`,
      'format.tmp',
      'catalogue.db-wal',
    ]);
    if (existsSync(this.#path(extra))) return undefined;
    const alike = inventory(this.#scene.older).filter((each) => each.kind === kind && each.type === 'file');
    const copied = dice.of([path, ...alike.map((each) => each.path)]);
    const from = dice.happens(0.5) ? this.#scene.folder : this.#scene.older;
    mkdirSync(dirname(this.#path(extra)), { recursive: true });
    const isCopy = dice.happens(0.6) && existsSync(join(from, copied));
    if (isCopy) copyFileSync(join(from, copied), this.#path(extra));
    else writeFileSync(this.#path(extra), bytesOf(dice, dice.below(5000)));
    return { path: extra, detail: isCopy ? `${copied} of ${from}` : 'random bytes' };
  }

  #link({ path, kind }: Item): { detail: string } {
    const full = this.#path(path);
    const moved = this.#aside();
    const alike = this.#items.filter((each) => each.kind === kind && each.path !== path);
    const target = this.#dice.of(['/nowhere/at/all', full, moved, ...alike.map((each) => this.#path(each.path))]);
    renameSync(full, moved);
    symlinkSync(target, full);
    return { detail: target === moved ? ELSEWHERE : `to ${target}` };
  }
}

function overwrite(path: string, change: (bytes: Buffer) => void): void {
  const bytes = readFileSync(path);
  change(bytes);
  writeFileSync(path, bytes);
}

export function harm(scene: Scene, dice: Dice): Harm {
  return new Surgeon(scene, dice).operate();
}

export const shown = ({ name, path, detail }: Harm) => `${path}: ${name}${detail === '' ? '' : ` (${detail})`}`;
