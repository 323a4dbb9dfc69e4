import assert from 'node:assert/strict';
import { test } from 'node:test';
import { machine } from './machine.ts';

test('the machine is described, and survives JSON', () => {
  const here = machine();
  assert.ok(here.cpu.length > 0 && here.cores >= 1 && here.memoryGiB > 0);
  assert.match(here.node, /^v\d+/);
  assert.deepEqual(JSON.parse(JSON.stringify(here)), here);
});
