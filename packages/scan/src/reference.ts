// The slow, obvious kernel: reads blocks back out of the segment's layout, and scans them with
// scheme's own `scanBlock`. The oracle for the other kernels.

import { open } from 'node:fs/promises';
import { checksum } from '@hers/ring';
import { type Block, encodeResponse, expandedQuery, HersError, polyWords, type Query, scanBlock } from '@hers/scheme';
import type { Kernel, ScanOptions, ScanResult, SegmentHandle, SegmentSource } from './kernel.ts';
import { decodeHeader, LANES, panelRuns, takeRows } from './segment.ts';

interface Loaded extends SegmentHandle {
  readonly bytes: Uint8Array;
  verified: boolean;
}

export class ReferenceKernel implements Kernel {
  readonly name = 'reference';
  readonly detail = 'plain TypeScript, one thread';
  readonly #loaded = new Map<SegmentHandle, Loaded>();

  async load(source: SegmentSource): Promise<SegmentHandle> {
    const name = 'path' in source ? source.path : source.name;
    const bytes = 'path' in source ? await readWhole(source.path) : new Uint8Array(source.bytes);
    const loaded: Loaded = { name, header: decodeHeader(bytes, bytes.length, name), bytes, verified: false };
    this.#loaded.set(loaded, loaded);
    return loaded;
  }

  async *scan(
    handles: readonly SegmentHandle[],
    queries: readonly Query[],
    { signal }: ScanOptions = {},
  ): AsyncIterable<ScanResult> {
    const expanded = queries.map((query) => expandedQuery(query));
    for (const handle of handles) {
      const loaded = this.#loaded.get(handle);
      if (!loaded) throw new HersError('INVALID_ARGUMENT', `${handle.name} is not loaded in this kernel`);
      verify(loaded);
      for (let block = 0; block < loaded.header.blocks.length; block++) {
        const matrix = takeBlock(loaded, block);
        for (let query = 0; query < queries.length; query++) {
          signal?.throwIfAborted();
          yield { handle, block, query, response: encodeResponse(scanBlock(matrix, expanded[query])) };
          await new Promise(setImmediate);
        }
      }
    }
  }

  async unload(handle: SegmentHandle): Promise<void> {
    this.#loaded.delete(handle);
  }

  async close(): Promise<void> {
    this.#loaded.clear();
  }
}

async function readWhole(path: string): Promise<Uint8Array> {
  const file = await open(path, 'r');
  try {
    return new Uint8Array(await file.readFile());
  } finally {
    await file.close();
  }
}

function verify(loaded: Loaded): void {
  if (loaded.verified) return;
  const { partChecksums, dataAt, partBytes } = loaded.header;
  partChecksums.forEach((sum, part) => {
    const at = dataAt + part * partBytes;
    if (checksum(loaded.bytes.subarray(at, at + partBytes)) !== sum) throw damagedPart(loaded.name, part);
  });
  loaded.verified = true;
}

export function damagedPart(name: string, part: number): HersError {
  return new HersError(
    'DAMAGED',
    `${name} is damaged in part ${part}: restore it from a copy, or rebuild it with the key`,
  );
}

function takeBlock({ header, bytes }: Loaded, index: number): { block: Block; maskRows: Uint32Array } {
  const { parameters, keyId, width, rows, galleryScale, blocks, dataAt, partBytes } = header;
  const words = polyWords(parameters);
  const all = new Uint32Array(rows * words);
  const runs = panelRuns(parameters, rows, blocks.length, index);
  for (let group = 0; group * LANES < words; group++) {
    const part = new Uint32Array(bytes.buffer, bytes.byteOffset + dataAt + group * partBytes, partBytes / 4);
    for (const { first, count, at } of runs) {
      const rows = { words: all, from: first * words + group * LANES, stride: words };
      takeRows(parameters, part, at / 4, count, rows);
    }
  }
  const block = {
    ...blocks[index],
    parameters,
    keyId,
    width,
    galleryScale,
    seed: new Uint8Array(0),
    rows: all.subarray(0, width * words),
  };
  return { block, maskRows: all.subarray(width * words) };
}
