import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fit } from '@hers/training';
import { Random } from '@hers/vectors/random';
import { measureAndRender, type Outcome, SmallRuns } from '../../testing/small-runs.ts';
import { againWith } from '../data/data.ts';
import { asGiven } from '../lab/experiment.ts';
import { beginningsOf } from './ablation.ts';
import type { DimensionParameters } from './dimension.ts';
import type { FacesParameters } from './faces.ts';
import { EXPERIMENTS } from './index.ts';
import type { NetworksParameters } from './networks.ts';
import type { TwoStageAccuracyParameters } from './two-stage-accuracy.ts';
import type { WholeParameters } from './whole.ts';

const { smallRun, results, testAll } = new SmallRuns(EXPERIMENTS);

testAll();

describe('what they say', () => {
  it("table2: counters are the formulas' values", async () => {
    const figures = await results('table2');
    for (const [name, { value }] of figures) {
      const formula = figures.get(`${name}-formula`);
      if (formula) assert.equal(value, formula.value, name);
    }
  });

  it('figure3: Boddeti is faster for one template, HERS from the crossing on', async () => {
    const figures = await results('figure3');
    assert.ok(figures.get('crossing-d16')!.value >= 1);
    // CPU time, because other load makes any wall time long.
    const seconds = (system: string, m: number) => figures.get(`${system}-seal-d16-m${m}-cpu`)!.value;
    assert.ok(seconds('boddeti', 1) < seconds('hers', 1));
    assert.ok(seconds('boddeti', 10_000) > 10 * seconds('hers', 10_000));
    assert.equal(figures.get('boddeti-seal-d16-m10000')!.source, 'extrapolated');
    assert.equal(figures.get('ours-exact-d16-m10000')!.source, 'measured');
  });

  it('faces: fewer dimensions find fewer people, and the full ones all that the metric finds', async () => {
    const figures = await results('faces');
    assert.equal(figures.get('full-24')!.unit, 'rank-1');
    for (const compressor of ['pca', 'lda']) {
      const [more, fewer] = [8, 4].map((dimension) => figures.get(`${compressor}-${dimension}`)!.value);
      assert.ok(figures.get('full-24')!.value >= more && more > fewer, `${compressor}: ${more}, ${fewer}`);
      assert.ok(figures.get(`${compressor}-4-rank10`)!.value >= fewer);
      assert.ok(figures.get(`${compressor}-4-error`)!.value > 0);
    }
    for (const dimension of [8, 4]) {
      const difference = figures.get(`lda-${dimension}`)!.value - figures.get(`pca-${dimension}`)!.value;
      assert.ok(Math.abs(figures.get(`lda-${dimension}-minus-pca`)!.value - difference) < 1e-12);
      assert.ok(figures.get(`lda-${dimension}-minus-pca-error`)!.value > 0);
    }
  });

  it('ablation: each variant is what it is called, and none is another', async () => {
    const figures = await results('ablation');
    const names = ['deepmds++', 'without-mining', 'without-covariance', 'deepmds'];
    const found = names.map((name) => figures.get(`${name}-8-map`)!.value);
    assert.equal(new Set(found).size, names.length, `${found}`);
  });

  it('ablation: networks to more dimensions begin with more axes, and a shorter run stands beside a longer one', async () => {
    assert.deepEqual(beginningsOf([256, 128, 16], 256), [
      { axes: 256, dimensions: [128, 16] },
      { axes: 384, dimensions: [256] },
    ]);
    const folder = mkdtempSync(join(tmpdir(), 'hers-ablation-'));
    try {
      const shorter = join(folder, 'ablation.json');
      const { data } = await smallRun('ablation');
      writeFileSync(shorter, JSON.stringify(data));
      await assert.rejects(results('ablation', { shorter, steps: '50' }), /is no run with fewer than 50 steps/);
      const again = await measureAndRender(EXPERIMENTS, 'ablation', {
        small: true,
        shorter,
        steps: '51',
        minutes: '0',
      });
      const own = data.results.find(({ name }) => name === 'deepmds-8-seed1')!.value;
      assert.equal(again.data.results.find(({ name }) => name === 'steps50-deepmds-8')!.value, own);
      assert.match(again.markdown, /Networks that are not trained: 4 that have not begun\./);
      assert.match(again.markdown, /Is that long enough\?/);
      assert.match(again.data.command, /--shorter <file>$/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('networks: what a time limit interrupts is taken up again, and ends as if nothing had happened', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hers-networks-'));
    try {
      const whole = await results('networks');
      const state = join(folder, 'state');
      const [given, models] = [{ state, compressors: 'deepmds++', seeds: '1' }, join(folder, 'models')];
      const nothing = await measureAndRender(EXPERIMENTS, 'networks', { small: true, ...given, minutes: '0' });
      assert.equal((nothing.data.parameters as NetworksParameters).unfinished.length, 2);
      assert.match(nothing.markdown, /Not over yet: deepmds\+\+-curve \(0 %\), deepmds\+\+-seed1 \(0 %\)\./);
      // Where this stops them, if it does, depends on the machine.
      await measureAndRender(EXPERIMENTS, 'networks', { small: true, ...given, minutes: '0.04' });
      const again = await results('networks', { ...given, models });
      for (const dimension of [8, 4])
        for (const ending of ['', '-loss', '-penalty']) {
          const name = `deepmds++-${dimension}-seed1${ending}`;
          assert.equal(again.get(name)!.value, whole.get(name)!.value, name);
        }
      // Other experiments use what was trained.
      assert.equal(readdirSync(models).length, 2);
      await assert.rejects(results('networks', { ...given, steps: '51' }), /holds the training of other networks/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("networks: the authors' variant ends where it is told to, and the page says so", async () => {
    const given = { small: true, compressors: 'deepmds++authors', seeds: '1', 'authors-end': '20' };
    const { data, markdown } = await measureAndRender(EXPERIMENTS, 'networks', given);
    const figures = new Map(data.results.map((figure) => [figure.name, figure.value]));
    for (const dimension of [8, 4]) assert.equal(figures.get(`deepmds++authors-${dimension}-seed1-steps`), 20);
    assert.equal(data.curves!['deepmds++authors-4-step'].at(-1), 20);
    assert.match(markdown, /ended early, on the schedule of 50 steps/);
    assert.match(data.command, /--authors-end 20/);
  });

  it('two-stage-accuracy: a second look at full dimension finds what the first alone does not', async () => {
    const figures = await results('two-stage-accuracy');
    assert.ok(figures.get('lda-6-k8')!.value > figures.get('lda-6')!.value);
    assert.ok(figures.get('lda-6-k8')!.value <= figures.get('full-24')!.value);
    // Twenty candidates at most, sixteen of them in the first step, less the probe itself.
    const fetched = figures.get('lda-6-enough-fetched')!.value;
    assert.ok(fetched >= 15 && fetched < 20, `${fetched}`);
    assert.ok(figures.get('lda-6-enough')!.value > figures.get('lda-6')!.value);
    assert.ok(figures.get('lda-6-k8-compact')!.value > figures.get('lda-6-compact')!.value);
    assert.ok(Math.abs(figures.get('lda-6-compact')!.value - figures.get('lda-6')!.value) < 0.05);
    assert.ok(!figures.has('lda-6-small'));
  });

  it('two-stage-accuracy: small is among the profiles where it is offered; what an earlier run measured stays', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hers-two-stage-'));
    try {
      const beside = join(folder, 'two-stage-accuracy.json');
      const earlier = await smallRun('two-stage-accuracy');
      writeFileSync(beside, JSON.stringify(earlier.data));
      const given = { compressors: 'pca', dimensions: '20', probes: '24', encrypted: '1' };
      const all = { small: true, sets: 'text', beside, ...given };
      const { data, markdown } = await measureAndRender(EXPERIMENTS, 'two-stage-accuracy', all);
      const figures = new Map(data.results.map(({ name, value }) => [name, value]));
      assert.ok(Math.abs(figures.get('text-pca-20-small')! - figures.get('text-pca-20')!) < 0.1);
      assert.match(markdown, /\| PCA, 20 +\| small +\|/);
      for (const { name, value } of earlier.data.results) assert.equal(figures.get(name), value, name);
      const [faces, text] = (data.parameters as TwoStageAccuracyParameters).sets;
      assert.deepEqual([faces.name, faces.apart?.command], ['faces', 'two-stage-accuracy --small']);
      assert.deepEqual([text.name, text.apart], ['text', undefined]);
      assert.ok(markdown.includes('Measured on') && markdown.indexOf('## Faces') < markdown.indexOf('## Sentences'));
      assert.match(data.command, /--beside <file>$/);
      writeFileSync(beside, JSON.stringify({ ...earlier.data, bench: 'faces' }));
      await assert.rejects(results('two-stage-accuracy', { beside }), /is no run of two-stage-accuracy/);
      writeFileSync(beside, '{');
      await assert.rejects(results('two-stage-accuracy', { beside }), /cannot be read as the data of a run/);
      const other = { ...earlier.data, parameters: { ...earlier.data.parameters, split: 'test' } };
      writeFileSync(beside, JSON.stringify(other));
      await assert.rejects(results('two-stage-accuracy', { beside }), /is of the split test, not validation/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('inversion: known templates or known probes give the probe away, ciphertexts and scores do not; one mask used twice is seen', async () => {
    const figures = await results('inversion');
    const value = (name: string) => figures.get(name)!.value;
    for (const profile of ['exact', 'compact']) {
      for (const known of ['plain', 'plain-population', 'known'])
        assert.ok(value(`${known}-${profile}-36`) > 0.99, known);
      // A reconstruction is in the span of the known probes.
      for (const known of ['plain', 'known']) assert.ok(value(`${known}-${profile}-3`) < 0.7, known);
      for (const nothing of ['encrypted', 'scores']) assert.ok(value(`${nothing}-${profile}-36`) < 0.6, nothing);
      for (const nothing of ['encrypted-population', 'scores-population']) {
        assert.ok(value(`${nothing}-${profile}-24`) < 0.6, nothing);
        const gain = value(`${nothing}-${profile}-24`) - value('guess-mean');
        assert.ok(Math.abs(value(`${nothing}-${profile}-24-gain`) - gain) < 1e-9, nothing);
      }
      assert.equal(value(`linking-${profile}-control`), 1);
      assert.ok(Number.isFinite(value(`linking-${profile}-one-key`)));
    }
  });

  it('inversion-compressed: what was left out does not come back, and as many known probes as dimensions give the rest', async () => {
    const figures = await results('inversion-compressed');
    const value = (name: string) => figures.get(name)!.value;
    for (const name of ['full-24-stolen', 'full-24-36']) assert.ok(value(name) > 0.99, `${name}: ${value(name)}`);
    for (const dimension of [8, 4]) {
      const name = `pca-${dimension}`;
      assert.ok(value(`${name}-stolen-compressed`) > 1 - 1e-6);
      assert.ok(value(`${name}-${dimension / 2}-compressed`) < 0.9);
      assert.ok(value(`${name}-${1.5 * dimension}-compressed`) > 0.99);
      assert.ok(Math.abs(value(`${name}-${1.5 * dimension}`) - value(`${name}-stolen`)) < 0.02);
    }
    assert.ok(value('pca-4-stolen') < value('pca-8-stolen') && value('pca-8-stolen') < 0.9);
  });

  it('whole: every list of the published system and of exact is that in the clear, online or in a batch', async () => {
    const figures = await results('whole');
    const value = (name: string) => figures.get(name)!.value;
    for (const name of ['published-same', 'exact-one-same', 'exact-two-same']) assert.equal(value(name), 1, name);
    for (const name of ['published-rank1', 'exact-two-rank1', 'compact-two-rank1'])
      assert.ok(value(name) >= value('published-stage1-rank1') && value(name) <= value('full-rank1'), name);
    assert.ok(value('compact-one-overlap') > 0.7);
    // A ciphertext for each template, and one for each dimension of a block.
    assert.equal(value('published-gallery-fine-bytes'), 76 * 131_072);
    assert.equal(value('published-gallery-coarse-bytes'), 8 * 131_072);
    assert.equal(value('published-stage2-bytes') / value('published-stage1-bytes'), 10);
    // Twenty of them came online, each with its own upload for both stages, and one batch.
    const one = value('published-stage1-bytes') - 36;
    assert.ok(Math.abs(value('published-uploads-coarse-bytes') / (21 * 8 * one) - 1) < 0.001);
  });

  it('whole: a compressor of a file is taken, and one for other vectors is refused', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hers-whole-'));
    try {
      const file = join(folder, 'pca.onnx');
      const make = async (dimension: number) => {
        const random = new Random(1, 2);
        const vectors = new Float32Array(200 * dimension);
        const numbers = new Float64Array(vectors.length);
        random.fill(numbers, 1);
        vectors.set(numbers);
        const labels = Int32Array.from({ length: 200 }, (_, i) => i >> 1);
        writeFileSync(file, (await fit('pca', vectors, labels, { dimension: 6 })).save());
      };
      await make(12);
      await assert.rejects(results('whole', { compressor: file }), /takes vectors of 12 dimensions, and faces have 24/);
      await make(24);
      const { data } = await measureAndRender(EXPERIMENTS, 'whole', {
        small: true,
        compressor: file,
        probes: '2',
        k: '5',
      });
      const { coarse, chosen, compressor } = data.parameters as WholeParameters;
      assert.deepEqual([coarse, chosen, compressor.method, compressor.from], [6, 'given', 'pca', 'file']);
      assert.equal(data.command, 'whole --small --probes 2 --k 5 --compressor <file>');
      assert.equal(data.results.find(({ name }) => name === 'published-same')!.value, 1);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('dimension: what is no manifold has no estimate by the graph, and a sentence', async () => {
    const { data } = await smallRun('dimension');
    const { sets } = data.parameters as DimensionParameters;
    const figures = await results('dimension');
    for (const { name, refusals, distance } of sets) {
      assert.equal(Object.keys(refusals).length, distance === 'euclidean' ? 4 : 0, name);
      for (const k of [4, 7, 9, 15]) assert.equal(figures.has(`${name}-graph-k${k}`), distance !== 'euclidean');
      for (const sentence of Object.values(refusals))
        assert.match(sentence, /longest edge|more than one peak|deviation/);
    }
  });

  it('the command at the foot of a page makes that page', async () => {
    const foot = ({ markdown }: Outcome) => /^- Made by `npm run lab -- (.*?)`;/m.exec(markdown)?.[1];
    assert.equal(foot(await smallRun('faces')), 'faces --small');
    assert.equal(foot(await smallRun('table2')), 'table2 --small');
    const given = {
      split: 'test',
      dimensions: '8,8,4',
      compressors: 'pca,lda,pca',
      steps: '3',
      seeds: '2',
      json: true,
      small: true,
    };
    const outcome = await measureAndRender(EXPERIMENTS, 'faces', given);
    const again = 'faces --split test --dimensions 8,8,4 --compressors pca,lda,pca --steps 3 --seeds 2 --small';
    assert.equal(foot(outcome), again);
    const { dimensions, compressors } = outcome.data.parameters as FacesParameters;
    assert.deepEqual(
      [dimensions, compressors],
      [
        [8, 4],
        ['pca', 'lda'],
      ],
    );
    assert.equal(outcome.data.command, again);
    assert.equal(againWith({ data: '/home/somebody', split: 'test', models: 'kept' }), '--data <folder> --split test');
    // The folder may be named by the environment.
    assert.equal(againWith({}), '--data <folder>');
    assert.equal(asGiven({ small: false, dimensions: undefined, sets: "a b'c" }), "--sets 'a b'\\''c'");
  });

  it('inversion: numbers that cannot be are refused in a sentence', async () => {
    await assert.rejects(results('inversion', { probes: '1' }), /--probes is a whole number, two or more/);
    await assert.rejects(results('inversion', { probes: '2.5' }), /--probes is a whole number/);
    await assert.rejects(results('inversion', { pairs: '7' }), /--pairs is an even whole number, four or more/);
  });

  it('a split, a folder or a compressor that is not there is refused in a sentence', async () => {
    await assert.rejects(results('faces', { split: 'training' }), /"training" is not a split/);
    await assert.rejects(results('faces', { data: '/nonexistent' }), /faces-lfw.* is not in \/nonexistent/);
    await assert.rejects(results('faces', { compressors: 'zip' }), /no compressor 'zip'/);
    await assert.rejects(results('faces', { dimensions: '1000' }), /cannot be compressed to 1000/);
  });
});
