import assert from 'node:assert/strict';
import { it } from 'node:test';
import { isLoopback } from './loopback.ts';

it('an address of this machine alone is told from all others, however it is written', () => {
  for (const host of ['localhost', '127.0.0.1', '127.255.255.254', '::1', '[::1]']) assert.ok(isLoopback(host), host);
  const others = [
    '',
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '128.0.0.1',
    '127.0.0.256',
    '127.0.0.1.example',
    '127.1',
    'localhost.example',
  ];
  for (const host of others) assert.ok(!isLoopback(host), host);
});
