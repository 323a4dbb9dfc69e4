import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Source } from './experiment.ts';
import { EXPERIMENTS } from './index.ts';

const SOURCES: readonly Source[] = ['published', 'measured', 'extrapolated', 'computed'];

describe('every experiment, in its small form', () => {
  for (const [name, load] of Object.entries(EXPERIMENTS)) {
    it(name, async () => {
      const experiment = await load();
      assert.equal(experiment.name, name);
      const { report, markdown, svg } = await experiment.run({ small: true });
      assert.deepEqual(Object.keys(report), ['bench', 'parameters', 'machine', 'results']);
      assert.equal(report.bench, name);
      assert.equal(report.parameters['node-seal'], '7.0.0');
      const names = report.results.map((result) => result.name);
      assert.equal(new Set(names).size, names.length, 'a name is used twice');
      for (const { name, value, unit, source, ratio, against } of report.results) {
        assert.ok(Number.isFinite(value) && value >= 0, name);
        assert.ok(unit.length > 0 && SOURCES.includes(source), name);
        assert.equal(ratio === undefined, against === undefined, name);
        assert.ok(against === undefined || names.includes(against), name);
      }
      assert.match(markdown, /^# /);
      assert.ok(markdown.includes(`](${name}.svg)`) && markdown.includes(`(${name}.json)`));
      assert.doesNotMatch(markdown, /NaN|undefined|Infinity/);
      // What was not run as it stands is marked, and the mark is explained.
      if (report.results.some(({ source }) => source === 'extrapolated'))
        assert.match(markdown, /≈ .*\\* Extrapolated/s);
      assert.match(svg, /^<svg .*<\/svg>\n$/s);
      assert.ok(svg.length > 5000);
    });
  }
});

describe('what they say', () => {
  const results = async (name: string, values = {}) => {
    const { report } = await (await EXPERIMENTS[name]()).run({ small: true, ...values });
    return new Map(report.results.map((result) => [result.name, result]));
  };

  it("table2: counters are the formulas' values", async () => {
    const figures = await results('table2');
    for (const [name, { value }] of figures) {
      const formula = figures.get(`${name}-formula`);
      if (formula) assert.equal(value, formula.value, name);
    }
  });

  it('figure3: Boddeti is faster for one template, HERS from the crossing on', async () => {
    const figures = await results('figure3', { dimensions: '16' });
    assert.ok(figures.get('crossing-d16')!.value >= 1);
    // CPU time, because a machine with other work makes any time by the clock long.
    const seconds = (system: string, m: number) => figures.get(`${system}-seal-d16-m${m}-cpu`)!.value;
    assert.ok(seconds('boddeti', 1) < seconds('hers', 1));
    assert.ok(seconds('boddeti', 10_000) > 10 * seconds('hers', 10_000));
    assert.equal(figures.get('boddeti-seal-d16-m10000')!.source, 'extrapolated');
    assert.equal(figures.get('ours-exact-d16-m10000')!.source, 'measured');
  });

  it("communication: a probe of 64 dimensions has the paper's size when it is compressed as then", async () => {
    const figures = await results('communication', { dimensions: '64' });
    const probe = figures.get('hers-seal-zlib-d64-probe')!.value;
    const published = figures.get('published-hers-d64-probe')!.value;
    assert.ok(Math.abs(probe / published - 1) < 0.03, `${probe}, ${published}`);
  });
});
