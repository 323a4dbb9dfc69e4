// What a client holds of a collection, measured part by part: in memory, and sealed.

import type { MasterSeed } from '@hers/scheme/secret';
import type { Service } from '@hers/service';
import { openDescriptor } from '../src/formats/descriptor.ts';
import { Keyring } from '../src/keys/keyring.ts';
import type { ListCache } from '../src/session/list-cache.ts';
import { Places } from '../src/session/places.ts';
import { CollectionReader } from '../src/session/reader.ts';
import { InMemoryVersions } from '../src/session/versions.ts';

export interface HeldBytes {
  readonly lists: number;
  readonly columns: Readonly<Record<string, number>>;
}

/**
 * Opens a collection, and adds up what its lists, its table of places and its columns say they
 * take.
 */
export async function heldBytes(
  service: Service,
  seed: MasterSeed,
  name: string,
): Promise<{ readonly memory: HeldBytes & { readonly places: number }; readonly sealed: HeldBytes }> {
  const sizes = new Map<string, number>();
  const cache: ListCache = {
    open: async () => ({
      async *read() {},
      put: async ({ name: list, sealed }) => void sizes.set(list, sealed.length),
      close: async () => {},
    }),
    forget: async () => {},
  };
  const keyring = await Keyring.make(
    seed,
    openDescriptor(seed, name, (await service.getCollection(name)).descriptor),
    1,
  );
  try {
    const place = { gallery: '', name };
    const reader = new CollectionReader({ service, place, keyring, memory: new InMemoryVersions(), cache });
    const { manifest, entries, columns } = await reader.view();
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
        lists: sum(blocks.flatMap(({ lists }) => lists.map((list) => sizes.get(list)!))),
        columns: ofEach((field) => sum(blocks.map((block) => sizes.get(block.columns![field])!))),
      },
    };
  } finally {
    await keyring.close();
  }
}
