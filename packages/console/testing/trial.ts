// A gallery to look at: a folder with collections of synthetic vectors, a key file, and the console
// before it, both ways.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Database, MasterSeed, sealKey, type VectorRecord } from '@hers/client';
import { startServer } from '@hers/server';
import { openStore } from '@hers/store';
import type { Page } from 'playwright-core';
import {
  BASE,
  type ConsoleOptions,
  PAGE_HEADERS,
  readPage,
  serverFiles,
  startConsole,
} from '../src/node/index.node.ts';

export const PASSPHRASE = 'a passphrase for trials';
export const DIMENSION = 32;
/** What stands in ids and payloads: nothing of it may become an element of the page. */
export const HOSTILE = '<img src=x onerror="document.title=\'taken\'">';

const CITIES = ['Ankara', 'Bergen', 'Cusco', 'Dakar', 'Erfurt'];

/** Numbers that are the same in every run. */
export function vectorOf(seed: number, dimension: number = DIMENSION): number[] {
  let x = Math.imul(seed + 1, 0x9e3779b1);
  return Array.from({ length: dimension }, () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return x / 2 ** 31;
  });
}

export function* people(count: number): Generator<VectorRecord> {
  for (let i = 0; i < count; i++)
    yield {
      id: i === 3 ? HOSTILE : `person-${String(i).padStart(4, '0')}`,
      vector: vectorOf(i),
      payload: { city: CITIES[i % 5]!, since: 2000 + (i % 25), note: i === 3 ? HOSTILE : `note ${i} of a person` },
    };
}

export interface Trial extends AsyncDisposable {
  readonly folder: string;
  readonly keyFile: string;
  readonly seed: Uint8Array;
  /** The console beside the API of a server. */
  readonly served: string;
  /** The address of `hers console`, with its secret. */
  readonly address: string;
  stop(): Promise<void>;
  start(): Promise<void>;
}

export async function openTrial(records: number, models?: ConsoleOptions['models']): Promise<Trial> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-console-trial-'));
  using key = MasterSeed.generate();
  const keyFile = await sealKey(key, PASSPHRASE, 2 ** 10);
  const gallery = join(folder, 'gallery');
  const store = await openStore(gallery);
  const database = new Database(store, { key });
  const faces = await database.createCollection('faces', {
    dimension: DIMENSION,
    fields: { city: 'keyword', since: 'number' },
  });
  await faces.upsert(people(records));
  await faces.optimize();
  await database.createCollection('voices', { dimension: 192, profile: 'exact', metric: 'euclidean', normBound: 10 });
  await database.close();
  const files = [...(await readPage()), ...serverFiles()];
  const site = { base: BASE, headers: PAGE_HEADERS, files };
  let server = await startServer(await openStore(gallery), { port: 0, site });
  const port = Number(new URL(server.url).port);
  const served = await startConsole({
    upstream: { url: server.url },
    ...(models ? { models } : {}),
    gallery: `file:${gallery}`,
    port: 0,
    keyFile: { name: 'hers.key', text: keyFile },
  });
  return {
    folder,
    keyFile,
    seed: key.reveal(),
    served: server.url + BASE,
    address: served.address,
    stop: () => server.close(),
    start: async () => {
      server = await startServer(await openStore(gallery), { port, site });
    },
    async [Symbol.asyncDispose]() {
      await served.close();
      await server.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A picture as a film of two frames (YUV4MPEG2), which Chromium takes for a camera. */
export async function filmOf(page: Page, picture: Buffer, width = 640, height = 480): Promise<Buffer> {
  const rgba = Buffer.from(
    await page.evaluate(
      async ([base64, w, h]) => {
        const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
        const image = await createImageBitmap(new Blob([bytes]));
        const context = new OffscreenCanvas(w, h).getContext('2d')!;
        const scale = Math.min(w / image.width, h / image.height);
        context.drawImage(image, 0, 0, image.width * scale, image.height * scale);
        const { data } = context.getImageData(0, 0, w, h);
        let text = '';
        for (let at = 0; at < data.length; at += 2 ** 14)
          text += String.fromCharCode(...data.subarray(at, at + 2 ** 14));
        return btoa(text);
      },
      [picture.toString('base64'), width, height] as const,
    ),
    'base64',
  );
  const at = (x: number, y: number, colour: number) => rgba[4 * (y * width + x) + colour]!;
  const plane = (step: number, weights: readonly number[], offset: number) =>
    Buffer.from(
      Array.from({ length: (width / step) * (height / step) }, (_, i) => {
        const [x, y] = [(i % (width / step)) * step, Math.floor(i / (width / step)) * step];
        return Math.round(offset + weights.reduce((sum, weight, colour) => sum + weight * at(x, y, colour), 0));
      }),
    );
  // BT.601, limited range.
  const frame = [
    Buffer.from('FRAME\n'),
    plane(1, [0.257, 0.504, 0.098], 16),
    plane(2, [-0.148, -0.291, 0.439], 128),
    plane(2, [0.439, -0.368, -0.071], 128),
  ];
  const head = Buffer.from(`YUV4MPEG2 W${width} H${height} F15:1 Ip A1:1 C420jpeg\n`);
  return Buffer.concat([head, ...frame, ...frame]);
}
