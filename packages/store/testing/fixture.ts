// The content of the folder in fixtures/. It is small, and its parameters protect nothing.

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LOCK_FILE } from '../src/files/layout.ts';
import { openStore } from '../src/store.ts';
import { Script } from './crash-script.ts';

export const FIXTURE_STEPS = 12;

export function fixtureScript(): Script {
  return new Script(2026, 0.1, false);
}

export async function writeFixture(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  const store = await openStore(folder);
  const script = fixtureScript();
  for (let i = 0; i < FIXTURE_STEPS; i++) await script.step(i).run(store);
  await store.close();
  await rm(join(folder, LOCK_FILE));
}
