// A keeper, a server and devices for tests: in one process, over HTTP.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TokenStore } from '@hers/server';
import { served } from '@hers/server/testing';
import type { Service } from '@hers/service';
import { withMethods } from '@hers/service';
import type { InboxLimits } from '@hers/store';
import { openDevice } from '../src/inbox/device.ts';
import type { AddDeviceOptions } from '../src/inbox/registry.ts';
import { connect, MasterSeed, type Question, type QuestionOptions, type Refusal } from '../src/index.ts';
import { InMemoryVersions } from '../src/session/versions.ts';
import { vectorOf } from './client.ts';

export const DIMENSION = 8;
export const person = (i: number) => ({ id: `person ${i}`, vector: vectorOf(i, DIMENSION) });

/** A vector near that of a person. */
export const near = (i: number, seed = 1) => {
  const noise = vectorOf(1000 * seed + i, DIMENSION);
  return vectorOf(i, DIMENSION).map((x, j) => x + 0.1 * noise[j]!);
};

/** A collection of `count` people, half of them in blocks, served by a store that may `cheat`. */
export async function world(
  count = 40,
  cheat: Partial<Service> = {},
  options: {
    partitionBy?: string;
    cors?: string[];
    dimension?: number;
    inbox?: InboxLimits;
    /** Returns the bytes that the server takes its process to have. */
    measure?: () => number;
  } = {},
) {
  const methods: Partial<Service> = { ...cheat };
  const folder = await mkdtemp(join(tmpdir(), 'hers-devices-'));
  const file = new TokenStore(join(folder, 'tokens.json'));
  const { secret: token } = await file.create({ scope: 'admin' });
  let store: Service | undefined;
  const server = await served({
    service: (given) => {
      store = given;
      return new Proxy(given, {
        get: (target, name: keyof Service) => Reflect.get(withMethods(target, methods), name),
      });
    },
    tokens: file.path,
    ...(options.inbox ? { inbox: options.inbox } : {}),
    ...(options.cors ? { cors: options.cors } : {}),
    ...(options.measure ? { measure: options.measure } : {}),
  });
  const key = MasterSeed.generate();
  const versions = new InMemoryVersions();
  const db = await connect(server.url, { key, token, versions });
  const fields = options.partitionBy
    ? { fields: { [options.partitionBy]: 'keyword' as const }, partitionBy: options.partitionBy }
    : {};
  const faces = await db.createCollection('faces', {
    dimension: options.dimension ?? DIMENSION,
    profile: 'open',
    ...fields,
  });
  if (count > 0) {
    await faces.upsert(
      Array.from({ length: count / 2 }, (_, i) => person(i)),
      { optimize: 'always' },
    );
    await faces.upsert(Array.from({ length: count / 2 }, (_, i) => person(i + count / 2)));
  }
  const add = async (name: string, given: AddDeviceOptions = {}) =>
    faces.addDevice(name, {
      address: server.url,
      token: async (device) => (await file.create({ scope: 'device', collection: 'faces', device })).secret,
      ...given,
    });
  return {
    server,
    store: store!,
    methods,
    file,
    folder,
    key,
    token,
    versions,
    db,
    faces,
    add,
    /** Makes a bundle, and opens it. */
    device: async (name: string, given?: AddDeviceOptions) => openDevice(undefined, await add(name, given)),
    /** All questions there are now, and what was refused. */
    async answers(given: QuestionOptions = {}) {
      const refused: Refusal[] = [];
      const asked: Question[] = [];
      for await (const each of faces.questions({
        wait: false,
        limit: 1,
        onRefused: (refusal) => refused.push(refusal),
        ...given,
      }))
        asked.push(each);
      return { asked, refused, reasons: refused.map(({ reason }) => reason) };
    },
    async [Symbol.asyncDispose]() {
      await db.close();
      await server[Symbol.asyncDispose]();
      await rm(folder, { recursive: true });
    },
  };
}
