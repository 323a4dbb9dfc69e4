import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { completionFor, SHELLS } from './completion.ts';
import { makeProgram } from './program.ts';

const program = makeProgram(() => assert.fail());
const has = (shell: string) => spawnSync(shell, ['--version']).status === 0;
const needs = (shell: string) => ({ skip: has(shell) ? false : `no ${shell} found` });

/** What bash offers for the last of these words. */
function offered(...words: string[]): string[] {
  const script = `${completionFor('bash', program)}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})
COMP_CWORD=${words.length - 1}
_hers
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = spawnSync('bash', ['--norc', '-u', '-c', script], { encoding: 'utf8' });
  assert.equal(stderr, '');
  return stdout.split('\n').filter((word) => word !== '');
}

test('bash completes commands, options and values', needs('bash'), () => {
  assert.deepEqual(offered('hers', 'sea'), ['search']);
  assert.deepEqual(offered('hers', 'keys', ''), ['create', 'show', 'passphrase', 'rotate']);
  assert.deepEqual(offered('hers', 'collections', 'create', 'x', '--prof'), ['--profile']);
  assert.deepEqual(offered('hers', 'collections', 'create', 'x', '--metric', ''), ['cosine', 'dot', 'euclidean']);
  assert.deepEqual(offered('hers', '--json', '--key', 'keys', 'doctor', '--sc'), ['--scrub']);
  assert.deepEqual(offered('hers', 'import', 'x.npy', '--row'), ['--row-ids']);
  assert.deepEqual(offered('hers', 'completion', ''), [...SHELLS]);
  assert.ok(offered('hers', 'count', '--').includes('--gallery'));
});

test('zsh reads its script', needs('zsh'), () => {
  const { status, stderr } = spawnSync('zsh', ['-n', '-c', completionFor('zsh', program)], { encoding: 'utf8' });
  assert.deepEqual([status, stderr], [0, '']);
});

test('fish completes commands, options and values', needs('fish'), () => {
  const complete = (line: string) => {
    const script = `${completionFor('fish', program)}\ncomplete -C '${line}'`;
    const { stdout, stderr } = spawnSync('fish', ['--no-config', '-c', script], { encoding: 'utf8' });
    assert.equal(stderr, '');
    return stdout
      .split('\n')
      .map((each) => each.split('\t')[0])
      .filter((word) => word !== '');
  };
  assert.deepEqual(complete('hers sea'), ['search']);
  assert.deepEqual(complete('hers keys '), ['create', 'passphrase', 'rotate', 'show']);
  assert.deepEqual(complete('hers collections create x --metric '), ['cosine', 'dot', 'euclidean']);
  assert.deepEqual(complete('hers doctor --scr'), ['--scrub']);
});

test('every command and every option is in every script', () => {
  for (const shell of SHELLS) {
    const script = completionFor(shell, program);
    for (const command of program.subcommands) assert.ok(script.includes(command.name()), command.name());
    for (const option of ['passphrase-file', 'skip-bad', 'accept-older', 'new-passphrase-file'])
      assert.ok(script.includes(option), option);
  }
});
