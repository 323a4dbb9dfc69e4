// npm test [-- options and filters]: types, format and lint, layers, then the tests of what is
// shipped, of the paper, of the tools and of the examples.
//
//   npm test                        all of it
//   npm run test:all                the same, with the tests of cuda and trials, and long ones
//   npm run test:all -- --rest      only those that npm test leaves out
//   npm test -- packages/ring       only test files whose path contains this
//   npm test -- --quick             the tests alone
//   npm test -- --name=wrap         only tests whose name matches
//   npm test -- --times             afterwards, the seconds of each file
//   npm run coverage                the tests alone, and how much of each package they run
//
// Every step runs even when one before it failed. The checks count as one test each, so that
// `0 failed` in the last line means that all is well.

import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { run, type TestsStream } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { type Covered, reportCoverage } from './coverage.ts';
import { reportExports } from './exports.ts';
import { reportLayers } from './layers.ts';
import { reportSize } from './size.ts';
import { reportWords } from './words.ts';
import { Workspace } from './workspace.ts';

/** Beside what is shipped and the paper: their tests run with `--all`. */
const BESIDE = ['cuda', 'trials'];
/** The mark, on top of a test file, of one that runs with `--all`, because another is its short form. */
const LONG = /^\/\/ Long: /m;

/** The mark, on top of a test file, of one that takes little CPU for its time. */
const MOSTLY_WAITS = /^\/\/ Mostly waits/m;

const root = resolve(import.meta.dirname, '..');
const workspace = new Workspace(root);
const { quick, coverage, all, rest, times, names, filters } = readArguments();

const count = { passed: 0, failed: 0 };
const skipped: string[] = [];
const seconds = new Map<string, number>();
let covered: readonly Covered[] | undefined;

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: 'boolean', default: false },
        coverage: { type: 'boolean', default: false },
        all: { type: 'boolean', default: false },
        rest: { type: 'boolean', default: false },
        times: { type: 'boolean', default: false },
        name: { type: 'string', multiple: true, default: [] },
      },
    });
    const { quick, coverage, all, rest, times } = values;
    return {
      quick: quick || coverage || rest,
      coverage,
      all,
      rest,
      times,
      names: values.name.map((name) => new RegExp(name)),
      filters: positionals,
    };
  } catch (error) {
    console.error((error as Error).message);
    process.exit(2);
  }
}

async function step(name: string, action: () => boolean | Promise<boolean>): Promise<void> {
  console.log(`\n── ${name}`);
  const start = performance.now();
  const succeeded = await action();
  const taken = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`── ${name}: ${succeeded ? 'passed' : 'FAILED'} in ${taken} s`);
}

async function check(name: string, action: () => boolean): Promise<void> {
  await step(name, () => {
    const succeeded = action();
    count[succeeded ? 'passed' : 'failed']++;
    return succeeded;
  });
}

/** Runs the JavaScript launcher of an installed tool with the Node that runs this. */
function tool(launcher: string, ...args: string[]): boolean {
  const { status } = spawnSync(process.execPath, [join('node_modules', launcher), ...args], {
    cwd: root,
    stdio: 'inherit',
  });
  return status === 0;
}

type Mark = string | boolean | undefined;

function isSet(mark: Mark): boolean {
  return mark !== undefined && mark !== false;
}

/** Counts a test that did not decide anything, and keeps its reason for the end. */
function setAside({ name, skip, todo }: { name: string; skip?: Mark; todo?: Mark }): void {
  const reason = [skip, todo].find((mark) => typeof mark === 'string') ?? (isSet(todo) ? 'to do' : 'no reason given');
  skipped.push(`skipped: ${name} - ${reason}`);
}

/** Runs these files, so many at once, and counts. */
function start(files: readonly string[], concurrency: number): TestsStream {
  const before = count.failed;
  const stream = run({
    files: files.map((file) => join(root, file)),
    cwd: root,
    concurrency,
    execArgv: ['--import', pathToFileURL(join(root, 'tools/test-start.mjs')).href],
    ...(names.length > 0 ? { testNamePatterns: names } : {}),
    ...(coverage
      ? {
          coverage,
          coverageIncludeGlobs: [...workspace.folders.values()].map((folder) => `${folder}/src/**`),
          coverageExcludeGlobs: ['**/*.test.ts'],
        }
      : {}),
  });
  stream.on('test:pass', (event) => {
    if (isSet(event.skip) || isSet(event.todo)) setAside(event);
    // A file passes as a whole when none of its tests was asked for: nothing to count.
    else if (event.details.type !== 'suite' && event.name !== event.file) count.passed++;
  });
  stream.on('test:fail', (event) => {
    if (isSet(event.todo)) setAside(event);
    // A suite whose tests failed is not a failure of its own; one whose hook failed is.
    else if ((event.details.error as { failureType?: string }).failureType !== 'subtestsFailed') count.failed++;
  });
  stream.on('test:summary', ({ file, success, duration_ms }) => {
    if (file !== undefined) seconds.set(relative(root, file), duration_ms / 1000);
    if (file === undefined && !success && count.failed === before) count.failed++;
  });
  return stream;
}

/** Everything of the first, as it comes, then everything of the next, which runs all the while. */
async function* oneByOne(streams: readonly TestsStream[]): AsyncGenerator<TestEvent> {
  const [first, ...others] = streams;
  const kept = others.map((stream) => stream.toArray());
  yield* first;
  for (const events of kept) yield* await events;
}

/** Whether `npm test` leaves a file to `npm run test:all`. */
const isLeftOut = (file: string) =>
  BESIDE.includes(workspace.placeOf(file)?.name ?? '') || LONG.test(readFileSync(join(root, file), 'utf8'));

async function runTests(): Promise<boolean> {
  // The tests of tools come first: that of packing takes half a minute, and would be the last, with
  // nothing left for the other core.
  const files = [
    ...globSync('tools/*.test.ts', { cwd: root }).sort(),
    ...workspace.glob('src/**/*.test.ts'),
    ...globSync('examples/*/*.test.ts', { cwd: root }),
  ]
    .filter((file) => (all && !rest) || filters.length > 0 || isLeftOut(file) === rest)
    .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)));
  if (files.length === 0) {
    console.log(`No test file matches ${filters.join(', ')}.`);
    count.failed++;
    return false;
  }
  const before = count.failed;
  // A process starts in half the time with code that was compiled before, and there are hundreds:
  // one for each file, and those that tests start. Coverage would be less exact with it.
  if (!coverage) process.env.NODE_COMPILE_CACHE ??= workspace.path('cli', 'build/compile-cache');
  // More than two at once would disturb the tests that measure time; one that mostly waits does not.
  // What is covered is told by one run alone.
  const isApart = (file: string) => !coverage && MOSTLY_WAITS.test(readFileSync(join(root, file), 'utf8'));
  const apart = files.filter(isApart);
  const together = files.filter((file) => !isApart(file));
  const streams = [
    ...(together.length > 0 ? [start(together, 2)] : []),
    ...(apart.length > 0 ? [start(apart, 1)] : []),
  ];
  // The runner's table of every file is left out: there is one of packages in the end.
  const shown = Readable.from(oneByOne(streams)).filter((event: TestEvent) => {
    if (event.type === 'test:coverage') covered = event.data.summary.files;
    return event.type !== 'test:coverage';
  });
  for await (const text of shown.compose(spec)) process.stdout.write(text);
  return count.failed === before;
}

if (!quick) {
  await check('types', () => tool('typescript/bin/tsc'));
  await check('types in a browser', () => tool('typescript/bin/tsc', '-p', 'tsconfig.web.json'));
  const colours = process.stdout.isTTY ? 'force' : 'off';
  await check('format and lint', () => tool('@biomejs/biome/bin/biome', 'ci', `--colors=${colours}`));
  await check('layers', () => reportLayers(root));
  await check('words', () => reportWords(root));
  await check('exports', () => reportExports(root));
  await check('size', () => reportSize(root));
}
await step('tests', runTests);

console.log('');
if (covered) reportCoverage(root, covered);
if (times)
  for (const [file, taken] of [...seconds].sort(([, a], [, b]) => b - a))
    console.log(`${taken.toFixed(1).padStart(7)} s ${file}`);
for (const line of skipped) console.log(line);
console.log(`${count.passed} passed, ${count.failed} failed, ${skipped.length} skipped`);
process.exitCode = count.failed > 0 ? 1 : 0;
