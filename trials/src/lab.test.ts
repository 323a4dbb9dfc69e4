import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Data } from '@hers/paper/lab/experiment';
import { writeData, writePage } from '@hers/paper/lab/lab';

const DATA: Data = {
  ...{ bench: '', date: '', command: '', parameters: {}, versions: {}, results: [] },
  machine: { cpu: '', cores: 1, memoryGiB: 1, node: '', os: '', flags: [] },
};

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

test('a folder that cannot be written is refused before the experiment runs', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hers-lab-'));
  try {
    writeFileSync(join(folder, 'file'), '');
    mkdirSync(join(folder, 'taken', 'table2.json'), { recursive: true });
    for (const [out, message] of [
      ['file', /^EEXIST/],
      ['file/below', /^ENOTDIR/],
      ['taken', /taken\/table2\.json is a folder; name another file\.\n$/],
    ] as const) {
      const { status, stdout, stderr } = lab('table2', '--small', '--out', join(folder, out));
      assert.equal(status, 2, stderr);
      assert.equal(stdout, '');
      assert.match(stderr, message);
    }
    assert.deepEqual(readdirSync(join(folder, 'taken')), ['table2.json']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('what is no file is not written to, whether it is there before the experiment or comes meanwhile', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'hers-lab-'));
  try {
    const pipe = join(folder, 'table2.md');
    spawnSync('mkfifo', [pipe]);
    writeFileSync(join(folder, 'mine'), 'mine');
    const { status, stderr } = lab('table2', '--small', '--out', folder);
    assert.deepEqual([status, stderr], [2, `${pipe} is a named pipe; name another file.\n`]);
    assert.ok(lstatSync(pipe).isFIFO());
    const page = { markdown: '', svg: '' };
    await assert.rejects(writePage('table2', page, folder), /table2\.md is a named pipe/);
    symlinkSync('mine', join(folder, 'table3.md'));
    await assert.rejects(writePage('table3', page, folder), /table3\.md is a symbolic link/);
    symlinkSync('mine', join(folder, 'table3.json'));
    await assert.rejects(writeData('table3', DATA, folder), /table3\.json is a symbolic link/);
    assert.equal(readFileSync(join(folder, 'mine'), 'utf8'), 'mine');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the report is printed even when it cannot be written in the end', { skip: !existsSync('/bin/sh') }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'hers-lab-'));
  try {
    // No file may hold anything; a pipe may.
    const line = 'ulimit -f 0; exec "$@"';
    const args = ['-c', line, 'sh', process.execPath, command, 'table2', '--small', '--out', folder, '--json'];
    const { status, stdout, stderr } = spawnSync('/bin/sh', args, { encoding: 'utf8' });
    assert.equal(status, 2);
    assert.match(stderr, /EFBIG/);
    assert.equal(JSON.parse(stdout).bench, 'table2');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('render makes the page again from its data, and measures nothing', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hers-lab-'));
  try {
    assert.equal(lab('table2', '--small', '--out', folder).status, 0);
    const files = ['table2.json', 'table2.md', 'table2.svg'];
    const before = files.map((file) => readFileSync(join(folder, file), 'utf8'));
    for (const file of files.slice(1)) rmSync(join(folder, file));
    for (const args of [['render'], ['render', 'table2']]) {
      const { status, stdout, stderr } = lab(...args, '--out', folder);
      assert.deepEqual([status, stdout], [0, ''], stderr);
      assert.deepEqual(
        files.map((file) => readFileSync(join(folder, file), 'utf8')),
        before,
      );
    }
    writeFileSync(join(folder, 'table3.json'), before[0]);
    const { status, stderr } = lab('render', 'table3', '--out', folder);
    assert.equal(status, 2);
    assert.match(stderr, /^table3\.json holds the data of table2/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('--help lists the experiments', () => {
  const { status, stdout } = lab('--help');
  assert.equal(status, 0);
  for (const name of ['table1', 'table2', 'figure3', 'table3', 'two-stage', 'communication', 'faces', 'inversion']) {
    assert.match(stdout, new RegExp(`^  ${name} `, 'm'));
  }
});

test('where a package is missing, its experiments say so, and the others can be listed', () => {
  const absent = `import { registerHooks } from 'node:module';
registerHooks({ resolve(name, context, next) {
  if (name !== 'vega') return next(name, context);
  throw Object.assign(new Error("Cannot find package 'vega' imported from here"), { code: 'ERR_MODULE_NOT_FOUND' });
} });`;
  const without = (...args: string[]) =>
    spawnSync(process.execPath, ['--import', `data:text/javascript,${encodeURIComponent(absent)}`, command, ...args], {
      encoding: 'utf8',
    });
  const { status, stderr } = without('table2', '--small');
  assert.equal(status, 3, stderr);
  assert.equal(
    stderr,
    'table2 needs the package vega, which is not installed; install it, or run this in a clone after npm ci.\n',
  );
  const list = without('--help');
  assert.equal(list.status, 0, list.stderr);
  assert.match(list.stdout, /^ {2}table2 +\(not here: table2 needs the package vega/m);
});

for (const [what, args, message] of [
  ['no name', [], /^Name the experiment/],
  ['an unknown name', ['nonsense'], /^There is no experiment 'nonsense'/],
  ['a name every object has', ['constructor'], /^There is no experiment 'constructor'/],
  ['an unknown option', ['table2', '--nonsense'], /^Unknown option '--nonsense'/],
  ['a name after an option', ['--split', 'faces', 'nonsense'], /^There is no experiment 'nonsense'/],
  ['a folder without data', ['--data', '/nonexistent', 'faces'], /^faces-lfw-arcface128.npy is not in \/nonexistent/],
  ['a wrong list', ['figure3', '--small', '--dimensions', 'many'], /^"many" is not a list/],
  ['two numbers for one', ['faces', '--small', '--seeds', '2,5'], /^--seeds is one positive whole number, not "2,5"/],
  ['no steps where no network is', ['faces', '--small', '--steps', '0'], /^--steps is one positive whole number/],
  ['steps that are none', ['pictures', '--small', '--steps', 'abc'], /^--steps is one positive whole number/],
  ['steps of an ablation', ['ablation', '--small', '--steps', 'abc'], /^--steps is one positive whole number/],
  [
    'minutes that are none',
    ['networks', '--small', '--minutes', 'few'],
    /^--minutes is a number, 0 or more, not "few"/,
  ],
  ['a page of no experiment', ['render', 'nonsense'], /^There is no experiment 'nonsense'/],
  ['a page without data', ['render', 'faces', '--out', '/nonexistent'], /^ENOENT/],
  ['pages without data', ['render', '--out', '/nonexistent'], /^\/nonexistent holds no data of an experiment/],
  ['pages as JSON', ['render', '--json'], /^render takes neither --json nor --small/],
  ['two pages at once', ['render', 'faces', 'table2'], /^Unexpected argument 'table2'/],
  ['probes', ['encryption-cost', '--small', '--probes', '1,2'], /^--probes is one positive whole number/],
] as const) {
  test(`${what} is answered by one sentence and exit code 2`, () => {
    const { status, stdout, stderr } = lab(...args);
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, message);
    assert.match(stderr, /^[^\n]*\.\n$/);
  });
}
