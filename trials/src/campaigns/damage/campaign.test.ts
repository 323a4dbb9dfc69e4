// The short form of `npm run campaign -- damage`.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { damage } from './campaign.ts';

it('galleries that are damaged at random: right or an error, nothing deleted, and repaired', async () => {
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  assert.ok(await damage({ cases: 12, seed: 1, isShort: true, log, onProgress: () => {} }), lines.join('\n'));
});
