// Addresses as people change them.

import assert from 'node:assert/strict';
import { test } from 'node:test';

test('an address that cannot be read leads to the start', async () => {
  const location = { hash: '#/collections/%' };
  let changed = () => {};
  const addEventListener = (_name: string, listener: () => void) => (changed = listener);
  Object.assign(globalThis, { location, addEventListener });
  const { followAddress, hrefOf, route } = await import('./route.ts');
  assert.deepEqual(route.value, { view: 'collections' });
  followAddress();
  const view = { view: 'collection', name: '50 % / ä', tab: 'search' } as const;
  for (const [hash, expected] of [
    [hrefOf(view), view],
    ['#/collections/%E0%A4%A/search', { view: 'collections' }],
    ['#/collections/faces/nothing', { view: 'collection', name: 'faces', tab: 'overview' }],
  ] as const) {
    location.hash = hash;
    changed();
    assert.deepEqual(route.value, expected, hash);
  }
});
