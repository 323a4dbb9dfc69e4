// What `hers doctor` would say of a folder that is served, as far as it does without a key and
// without reading much: for the page of whoever runs the server.

import type { ServerFinding } from '@hers/server';
import type { FolderStore } from '@hers/store';
import { servedFolder } from './gallery-checks.ts';
import { cryptography, disk, memory, processor, versions } from './machine-checks.ts';

export async function examine(path: string, folder: FolderStore): Promise<readonly ServerFinding[]> {
  const { findings, bytes } = await servedFolder(folder);
  return [versions(), processor(), cryptography(), ...findings, await disk(path, bytes), await memory(bytes)];
}
