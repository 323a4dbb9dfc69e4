// The short form of `npm run campaign -- cheating`.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { cheating } from './campaign.ts';

it('a hundred and sixty calls of a store that cheats at random: nothing wrong without an error', async () => {
  const lines: string[] = [];
  assert.ok(await cheating({ calls: 160, seed: 1, log: (line) => lines.push(line) }), lines.join('\n'));
});
