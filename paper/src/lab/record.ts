// The record of a run: its figures, and the facts needed to interpret them.

import { existsSync, readFileSync } from 'node:fs';
import { machine } from '@hers/vectors/machine';
import { asGiven, type Data, type Figure } from './experiment.ts';
import type { Values } from './runner.ts';

export interface Measured<Parameters> {
  readonly parameters: Parameters;
  readonly results: readonly Figure[];
  readonly curves?: Data['curves'];
}

/** `options` are those that run it again, by default the values as given. */
export function record<Parameters>(
  bench: string,
  values: Values,
  { parameters, results, curves }: Measured<Parameters>,
  options: string = asGiven(values),
): Data<Parameters> {
  return {
    bench,
    date: new Date().toISOString().slice(0, 10),
    command: `${bench} ${options}`.trim(),
    parameters: { ...parameters, ...(values.small === true ? { small: true } : {}) },
    versions: versions(),
    machine: machine(),
    results,
    ...(curves === undefined ? {} : { curves }),
  };
}

/** Versions of the measured software. */
function versions(): Record<string, string> {
  return {
    'node-seal': versionOf('node-seal', import.meta.resolve('node-seal')),
    hers: versionOf('@hers/scheme', import.meta.resolve('@hers/scheme')),
  };
}

/** Not every package exports its package.json, so it is searched for above the entry point. */
function versionOf(name: string, entry: string): string {
  for (let folder = new URL('.', entry); folder.pathname !== '/'; folder = new URL('..', folder)) {
    const file = new URL('package.json', folder);
    if (!existsSync(file)) continue;
    const { name: found, version } = JSON.parse(readFileSync(file, 'utf8'));
    if (found === name) return version;
  }
  throw new Error(`${name} has no package.json`);
}
