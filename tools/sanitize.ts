// Runs native code under AddressSanitizer: tests build an addon with it, and start a process that
// loads the sanitizer first.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { buildStale } from './build.ts';
import { part } from './parts.ts';
import type { Target } from './target.ts';

/** Options of the compiler and the linker. */
export const SANITIZER_FLAGS: readonly string[] = ['-fsanitize=address', '-fno-omit-frame-pointer', '-O1', '-g1'];

const compiler = part('compiler');
const library = compiler.path && libraryOf(compiler.path);

/** For the options of a test. */
export const skip: false | string =
  part('sanitizer').skip ||
  compiler.skip ||
  (!library && 'the compiler has no AddressSanitizer (on Debian: it comes with g++)');

/** The compiler prints a bare name if it has none. */
function libraryOf(path: string): string | undefined {
  const answer = execFileSync(path, ['-print-file-name=libasan.so'], { encoding: 'utf8' }).trim();
  return isAbsolute(answer) && existsSync(answer) ? answer : undefined;
}

/** Builds an addon, or fails with what the compiler says. */
export async function buildSanitized(target: Target): Promise<void> {
  const messages: unknown[] = [];
  assert.ok(await buildStale([target], (message) => messages.push(message)), messages.join('\n'));
}

/** Runs Node with these arguments. It must print this and nothing else. */
export function checkSays(args: readonly string[], says: string): void {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    // Node itself leaves memory to be freed by the exit of the process.
    env: { ...process.env, LD_PRELOAD: library, ASAN_OPTIONS: 'detect_leaks=0' },
  });
  assert.deepEqual({ stderr, stdout, status, signal }, { stderr: '', stdout: says, status: 0, signal: null });
}

/** Runs a module that is given as text. It must print `clean`. */
export function checkClean(script: string): void {
  checkSays(['--expose-gc', '--input-type=module', '-e', script], 'clean\n');
}
