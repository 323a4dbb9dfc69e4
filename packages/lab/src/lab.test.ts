import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const command = fileURLToPath(new URL('./lab.ts', import.meta.url));

function lab(...args: string[]) {
  return spawnSync(process.execPath, [command, ...args], { encoding: 'utf8' });
}

test('--json prints one object and nothing else, and --out gets the table, the plot and the data', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hers-lab-'));
  try {
    const { status, stdout, stderr } = lab('--out', folder, 'table2', '--small', '--json');
    assert.equal(status, 0, stderr);
    assert.equal(JSON.parse(stdout).bench, 'table2');
    assert.deepEqual(readdirSync(folder).sort(), ['table2.json', 'table2.md', 'table2.svg']);
    assert.deepEqual(JSON.parse(readFileSync(join(folder, 'table2.json'), 'utf8')), JSON.parse(stdout));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('--help lists the experiments', () => {
  const { status, stdout } = lab('--help');
  assert.equal(status, 0);
  for (const name of ['table1', 'table2', 'figure3', 'table3', 'two-stage', 'communication']) {
    assert.match(stdout, new RegExp(`^  ${name} `, 'm'));
  }
});

for (const [what, args, message] of [
  ['no name', [], /^Name the experiment/],
  ['an unknown name', ['nonsense'], /^There is no experiment 'nonsense'/],
  ['a name every object has', ['constructor'], /^There is no experiment 'constructor'/],
  ['an unknown option', ['table2', '--nonsense'], /^Unknown option '--nonsense'/],
  ['a wrong list', ['figure3', '--small', '--dimensions', 'many'], /^"many" is not a list/],
] as const) {
  test(`${what} is answered by one sentence and exit code 2`, () => {
    const { status, stdout, stderr } = lab(...args);
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, message);
    assert.match(stderr, /^[^\n]*\.\n$/);
  });
}
