import assert from 'node:assert/strict';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { readFully, writeFully } from './segment-file.ts';

it('a system that writes and reads little at a time still writes and reads all of it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-'));
  const file = await open(join(folder, 'file'), 'w+');
  try {
    const most = 7;
    const slow = {
      write: (bytes: Uint8Array, offset: number, length: number, at: number) =>
        file.write(bytes, offset, Math.min(most, length), at),
      read: (bytes: Uint8Array, offset: number, length: number, at: number) =>
        file.read(bytes, offset, Math.min(most, length), at),
    };
    const bytes = Uint8Array.from({ length: 100 }, (_, i) => i + 1);
    await writeFully(slow as typeof file, bytes, 3);
    assert.deepEqual(await readFully(file, 103, 0), Uint8Array.of(0, 0, 0, ...bytes));
    assert.deepEqual(await readFully(slow as typeof file, 103, 0), Uint8Array.of(0, 0, 0, ...bytes));
    assert.equal((await readFully(slow as typeof file, 50, 90)).length, 13);
    const silent = { write: async () => ({ bytesWritten: 0 }) };
    await assert.rejects(writeFully(silent as unknown as typeof file, bytes, 0), /wrote nothing/);
  } finally {
    await file.close();
    await rm(folder, { recursive: true });
  }
});
