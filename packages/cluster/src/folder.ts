// The folder of a node. If its catalogue is damaged and others have all that it keeps, it is set
// aside, and the node begins with an empty one, as after the loss of a disk.

import { mkdir, rename } from 'node:fs/promises';
import { HersError } from '@hers/service';
import { type FolderStore, openStore, type StoreOptions } from '@hers/store';
import { DIRECTORY, type Directory, decodeDirectory } from './directory.ts';

/** With fewer, the others are no majority without this one. */
const REPLICAS_TO_SPARE = 3;

export interface FolderOptions {
  /** How the folder is opened. */
  readonly store?: Omit<StoreOptions, 'mode' | 'shards'> | undefined;
  /** The directory, if the folder cannot say what it is. */
  readonly directory: () => Promise<Directory | undefined>;
  /** Called with the damage. */
  readonly report?: ((error: unknown) => void) | undefined;
}

/** Opens the folder of a node. */
export async function openShards(folder: string, name: string, options: FolderOptions): Promise<FolderStore> {
  const { report = () => {} } = options;
  const open = () => openStore(folder, { ...options.store, shards: true });
  let store: FolderStore | undefined;
  let damage: HersError | undefined;
  try {
    store = await open();
    damage = store.isReadOnly ? await catalogueDamage(store) : undefined;
    if (!damage) return store;
  } catch (error) {
    if (!(error instanceof HersError && error.code === 'DAMAGED')) throw error;
    damage = error;
  }
  const known = await store?.getManifest(DIRECTORY).catch(() => undefined);
  const directory = known ? decodeDirectory(known.manifest) : await options.directory().catch(() => undefined);
  if (!directory || !canBeSpared(directory, name)) {
    // What can be read of it may be all that there is.
    if (!store) throw damage;
    report(damage);
    return store;
  }
  await store?.close();
  const aside = `${folder}.damaged-${Date.now()}`;
  try {
    await rename(folder, aside);
    await mkdir(folder, { mode: 0o700 });
  } catch {
    throw new HersError('DAMAGED', `${damage.message}. Move it elsewhere, and start this node with an empty folder`);
  }
  report(
    new HersError(
      'DAMAGED',
      `${damage.message}. It is kept as ${aside}, and this node copies its shards from others; remove it when all is well`,
    ),
  );
  return open();
}

async function catalogueDamage(store: FolderStore): Promise<HersError | undefined> {
  // The catalogue comes first.
  for await (const { damage } of store.scrub({ threads: 1 })) return damage;
  return undefined;
}

/** Whether all shards that this node keeps are kept by a majority of others as well. */
function canBeSpared({ collections }: Directory, name: string): boolean {
  const kept = Object.values(collections).flatMap(({ shards }) => shards.filter((nodes) => nodes.includes(name)));
  return kept.every((nodes) => nodes.length >= REPLICAS_TO_SPARE);
}
