// A collection as a client holds it, to be measured part by part: what it takes in memory and
// sealed, and how long a filter takes without anything around it.

import type { MasterSeed } from '@hers/scheme/secret';
import type { Service } from '@hers/service';
import type { Fields } from '../src/fields/field.ts';
import type { Filter } from '../src/filter/filter.ts';
import type { BlockColumns, List } from '../src/formats/lists.ts';
import { emptyManifest, type ManifestBlock } from '../src/formats/manifest.ts';
import { Keyring, openDescriptor } from '../src/keys/keyring.ts';
import { Choices, chosenCount } from '../src/search/choice.ts';
import type { ListCache } from '../src/session/list-cache.ts';
import { CollectionReader } from '../src/session/reader.ts';
import { InMemoryVersions } from '../src/session/versions.ts';
import { Places, View } from '../src/session/view.ts';

export { Column, columnOf, Interned, Numbers, Texts } from '../src/fields/column.ts';
export { List } from '../src/formats/lists.ts';

export interface OpenView {
  readonly view: View;
  /** The bytes of each sealed list and column, by name. */
  readonly sizes: ReadonlyMap<string, number>;
}

/** Opens a collection, and closes everything but its view. */
export async function openView(service: Service, seed: MasterSeed, name: string): Promise<OpenView> {
  const sizes = new Map<string, number>();
  const cache: ListCache = {
    open: async () => ({
      async *read() {},
      put: async ({ name: list, sealed }) => void sizes.set(list, sealed.length),
      close: async () => {},
    }),
    forget: async () => {},
  };
  const { descriptor } = await service.getCollection(name);
  const keyring = await Keyring.make(seed, openDescriptor(seed, name, descriptor), 1);
  try {
    const place = { gallery: '', name };
    const reader = new CollectionReader({ service, place, keyring, memory: new InMemoryVersions(), cache });
    return { view: await reader.view(), sizes };
  } finally {
    await keyring.close();
  }
}

export interface HeldBytes {
  readonly lists: number;
  readonly columns: Readonly<Record<string, number>>;
}

/** What lists, columns and the table of places say they take. */
export function heldBytes({ view, sizes }: OpenView): {
  readonly memory: HeldBytes & { readonly places: number };
  readonly sealed: HeldBytes;
} {
  const { manifest, entries, columns } = view;
  const { blocks } = manifest;
  const places = new Places();
  places.extend(blocks, (id) => entries.get(id)!);
  const sum = (numbers: Iterable<number>) => [...numbers].reduce((all, each) => all + each, 0);
  const ofEach = (bytesOf: (field: string) => number) =>
    Object.fromEntries(Object.keys(manifest.fields).map((field) => [field, bytesOf(field)]));
  return {
    memory: {
      lists: sum([...entries.values()].map(({ bytes }) => bytes)),
      places: places.bytes,
      columns: ofEach((field) => sum([...columns.values()].map((each) => each.get(field)!.bytes))),
    },
    sealed: {
      lists: sum(blocks.map(({ list }) => sizes.get(list)!)),
      columns: ofEach((field) => sum(blocks.map((block) => sizes.get(block.columns![field])!))),
    },
  };
}

/** What a view holds of one block. */
export interface BlockContent {
  readonly list: List;
  readonly columns: BlockColumns;
}

/** A view of these blocks. It has no key: filters and lookups work, and no search. */
export function viewOf(blocks: Iterable<BlockContent>, fields: Fields): View {
  const entries = new Map<string, List>();
  const columns = new Map<string, BlockColumns>();
  const named: ManifestBlock[] = [];
  for (const { list, columns: own } of blocks) {
    const id = String(named.length);
    const names = Object.fromEntries([...own.keys()].map((field) => [field, `${id} ${field}`]));
    const plain = { hash: '', epoch: 0, list: '', dead: [] } as const;
    named.push({ ...plain, id, count: list.count, columns: names });
    entries.set(id, list);
    columns.set(id, own);
  }
  const manifest = { ...emptyManifest(1, fields), blocks: named };
  const nothing = { scoreSums: new Map(), pending: new Map(), spaces: new Map() };
  return new View({ manifest, hash: '', entries, columns, ...nothing, space: undefined as never });
}

/** How many records pass a filter, with no answer kept from before. */
export function passing(view: View, filter: Filter): number {
  return chosenCount(view, new Choices().of(view, filter, undefined));
}
