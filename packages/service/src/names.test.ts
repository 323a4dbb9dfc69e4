import assert from 'node:assert/strict';
import { it } from 'node:test';
import { HersError } from '@hers/scheme';
import { checkCollectionName, isCollectionName } from './names.ts';

it('a collection name is what paths and URLs can carry', () => {
  for (const name of ['a', '7', 'faces', 'Faces-2026.v1_x', 'a'.repeat(64)]) {
    assert.ok(isCollectionName(name), name);
    checkCollectionName(name);
  }
  for (const name of ['', '.', '..', '-a', '_a', 'a b', 'a/b', 'a\n', 'ä', 'a'.repeat(65), 7, null, undefined, ['a']]) {
    assert.ok(!isCollectionName(name), String(name));
    assert.throws(
      () => checkCollectionName(name),
      (error) => error instanceof HersError && error.code === 'INVALID_ARGUMENT',
    );
  }
});
