// For tests: the small form of experiments, measured and rendered as the command does it.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { part } from '../../tools/parts.ts';
import type { Data, Experiments, Figure, Rendered, Source } from '../src/lab/experiment.ts';
import type { Values } from '../src/lab/runner.ts';

export interface Outcome extends Rendered {
  readonly data: Data;
}

/** The page is made from what is left of the data after it was JSON. */
export async function measureAndRender({ byName }: Experiments, name: string, values: Values): Promise<Outcome> {
  const data = await (await byName[name].experiment()).measure(values);
  const page = await byName[name].page();
  return { data, ...(await page.render(JSON.parse(JSON.stringify(data)))) };
}

/** What may be below zero. */
const SIGNED = ['cosine', 'advantage', 'rank-1 difference'];
const SOURCES: readonly Source[] = ['published', 'measured', 'extrapolated', 'computed'];

/** Runs the small form of each experiment once, for all tests. */
export class SmallRuns {
  readonly #experiments: Experiments;
  readonly #runs = new Map<string, Promise<Outcome>>();

  constructor(experiments: Experiments) {
    this.#experiments = experiments;
  }

  readonly smallRun = async (name: string): Promise<Outcome> => {
    const run = this.#runs.get(name) ?? measureAndRender(this.#experiments, name, { small: true });
    this.#runs.set(name, run);
    return run;
  };

  readonly results = async (name: string, values?: Values): Promise<Map<string, Figure>> => {
    const { data } = values
      ? await measureAndRender(this.#experiments, name, { small: true, ...values })
      : await this.smallRun(name);
    return new Map(data.results.map((result) => [result.name, result]));
  };

  readonly testAll = (): void => {
    describe('every experiment, in its small form', () => {
      for (const [name, { experiment }] of Object.entries(this.#experiments.byName)) {
        it(name, name === 'cluster' ? part('nats') : {}, async () => {
          assert.equal((await experiment()).name, name);
          const { data, markdown, svg } = await this.smallRun(name);
          const keys = ['bench', 'date', 'command', 'parameters', 'versions', 'machine', 'results'];
          assert.deepEqual(
            Object.keys(data).filter((key) => key !== 'curves'),
            keys,
          );
          assert.equal(data.bench, name);
          assert.equal(data.versions['node-seal'], '7.0.0');
          assert.deepEqual(JSON.parse(JSON.stringify(data)), data, 'something is lost in JSON');
          const names = data.results.map((result) => result.name);
          assert.equal(new Set(names).size, names.length, 'a name is used twice');
          for (const { name, value, unit, source, ratio, against } of data.results) {
            assert.ok(Number.isFinite(value) && (value >= 0 || SIGNED.includes(unit)), name);
            assert.ok(unit.length > 0 && SOURCES.includes(source), name);
            assert.equal(ratio === undefined, against === undefined, name);
            assert.ok(against === undefined || names.includes(against), name);
          }
          assert.match(markdown, /^# /);
          assert.ok(markdown.includes(`](${name}.svg)`) && markdown.includes(`(${name}.json)`));
          assert.doesNotMatch(markdown, /NaN|undefined|Infinity/);
          // Figures that were not measured whole are marked, and the mark is explained.
          if (data.results.some(({ source }) => source === 'extrapolated'))
            assert.match(markdown, /≈ .*\\* Extrapolated/s);
          assert.match(svg, /^<svg role="img" aria-label="[^"]{20,}" .*<\/svg>\n$/s);
          assert.ok(svg.length > 5000);
        });
      }
    });
  };
}
