// Collections as programs of another edition of blocks write them.

import type { Edition } from '@hers/scheme';
import type { MasterSeed } from '@hers/scheme/secret';
import type { Service } from '@hers/service';
import { type Collection, collectionOf } from '../src/collection.ts';
import type { CollectionOptions } from '../src/database-options.ts';
import { encodeDescriptor, openDescriptor } from '../src/formats/descriptor.ts';
import { emptyManifest, sealManifest } from '../src/formats/manifest.ts';
import { Keyring } from '../src/keys/keyring.ts';
import { makeSealer } from '../src/keys/sealing.ts';
import { CollectionReader } from '../src/session/reader.ts';
import { CollectionSession } from '../src/session/session.ts';
import { InMemoryVersions } from '../src/session/versions.ts';

/** A collection whose description names no edition, as it was before there was a second. */
export async function createFirstEdition(
  service: Service,
  seed: MasterSeed,
  name: string,
  request: Omit<CollectionOptions, 'compressor'>,
): Promise<Collection> {
  const id = crypto.getRandomValues(new Uint8Array(16));
  const sealer = await makeSealer(seed.deriveKey('manifest', id));
  const manifest = await sealManifest(sealer, id, emptyManifest(1));
  const descriptor = encodeDescriptor(seed, { id, request });
  await service.createCollection(name, { id, descriptor, manifest });
  return openEdition(service, seed, name, 1);
}

/** A collection that gets new blocks of this edition. */
export async function openEdition(
  service: Service,
  seed: MasterSeed,
  name: string,
  edition: Edition,
): Promise<Collection> {
  const { descriptor } = await service.getCollection(name);
  const keyring = await Keyring.make(seed, openDescriptor(seed, name, descriptor), 1, edition);
  const place = { gallery: '', name };
  const reader = new CollectionReader({ service, place, keyring, memory: new InMemoryVersions() });
  const session = new CollectionSession(reader);
  await session.view();
  return collectionOf(session);
}
