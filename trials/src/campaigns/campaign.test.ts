import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const command = fileURLToPath(new URL('./campaign.ts', import.meta.url));

function campaign(...args: string[]) {
  return spawnSync(process.execPath, [command, ...args], { encoding: 'utf8' });
}

test('--help lists the campaigns and their options', () => {
  const { status, stdout } = campaign('--help');
  assert.equal(status, 0);
  const names =
    'noise soak crash soak-service crash-service connections cheating damage hostile-clients cluster busy'.split(' ');
  for (const name of names) assert.match(stdout, new RegExp(`^  ${name} `, 'm'));
  for (const option of ['queries', 'dimension', 'kills', 'seed', 'case', 'searchers', 'minutes'])
    assert.match(stdout, new RegExp(`^ +--${option} <value>`, 'm'));
});

for (const [what, args, message] of [
  ['no name', [], /^Name the campaign/],
  ['an unknown name', ['nonsense'], /^There is no campaign 'nonsense'/],
  ['an option of another campaign', ['soak', '--kills', '3'], /^Unknown option '--kills'/],
  ['a number that is none', ['noise', '--queries', 'many'], /^--queries is one positive whole number, not "many"/],
  [
    'templates that there are not',
    ['noise', '--gallery', 'odd'],
    /^--gallery is one of random, identical, one-hot, half-empty, not "odd"/,
  ],
  [
    'a profile that there is not',
    ['noise', '--profile', 'odd'],
    /^--profile is one of compact, small, exact, not "odd"/,
  ],
  ['a case below zero', ['damage', '--case=-1'], /^--case is one positive whole number/],
] as const) {
  test(`${what} is answered by one sentence and exit code 2`, () => {
    const { status, stdout, stderr } = campaign(...args);
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, message);
    assert.match(stderr, /^[^\n]*\.\n$/);
  });
}
