// A whole report of synthetic people, against figures that are counted here one by one.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Random } from '@hers/vectors/random';
import { hers, npy, temporaryFolder } from '../testing/cli.ts';
import { EXIT } from './exit.ts';

const DIMENSION = 8;
/** Strangers with one vector, and people with four: 440 vectors. */
const SIZES = [...new Array<number>(320).fill(1), ...new Array<number>(30).fill(4)];

interface Person {
  readonly name: string;
  readonly vector: readonly number[];
}

function people(): Person[] {
  const random = new Random(11);
  const all = SIZES.flatMap((size, p) => {
    const centre = Array.from({ length: DIMENSION }, () => random.normal());
    return Array.from({ length: size }, () => ({
      name: `person ${p}`,
      vector: centre.map((x) => x + 0.45 * random.normal()),
    }));
  });
  return Array.from(random.order(all.length), (i) => all[i]!);
}

function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = (x: readonly number[], y: readonly number[]) => x.reduce((sum, v, k) => sum + v * y[k]!, 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
const all = people();
before(async () => {
  folder = await temporaryFolder();
  const rows = all.map(({ vector }) => Float32Array.from(vector));
  await writeFile(join(folder.path, 'people.npy'), npy(rows, DIMENSION));
  await writeFile(join(folder.path, 'people.txt'), `${all.map(({ name }) => name).join('\n')}\n`);
});
after(() => folder[Symbol.asyncDispose]());

async function report(name: string, ...args: string[]) {
  const command = ['report', 'people.npy', '--labels', 'people.txt', '--output', name, '--draws', '20', ...args];
  const { exit, out, err } = await hers(folder.path, [...command, '--json']);
  assert.equal(exit, EXIT.done, err);
  const text = (ending: string) => readFile(join(folder.path, `${name}.${ending}`), 'utf8');
  return { ...JSON.parse(out), markdown: await text('md'), html: await text('html') };
}

describe('hers report', () => {
  let whole: Awaited<ReturnType<typeof report>>;
  before(async () => {
    whole = await report('whole');
  });
  const [clear, encrypted] = [0, 1].map((way) => () => whole.ways[way].evaluation);

  it('counts identification in the clear as one would by hand', () => {
    const mates = (i: number) => all.keys().filter((j) => j !== i && all[j]!.name === all[i]!.name);
    const probes = [...all.keys()].filter((i) => [...mates(i)].length > 0);
    const first = probes.filter((i) => {
      const best = Math.max(...[...mates(i)].map((j) => cosine(all[i]!.vector, all[j]!.vector)));
      return all.every(({ name, vector }) => name === all[i]!.name || cosine(all[i]!.vector, vector) < best);
    });
    const { identification } = clear!();
    assert.equal(identification.probes, 120);
    assert.equal(identification.people, 30);
    assert.ok(Math.abs(identification.cmc[0].value - first.length / probes.length) < 1e-9);
    const { value, low, high } = identification.cmc[0];
    assert.ok(low < value && value < high && value < 1, `${low} ${value} ${high}`);
    assert.ok(whole.markdown.includes(`| in the clear | ${(100 * value).toFixed(2)} % [${(100 * low).toFixed(2)},`));
  });

  it('counts pairs, and what is missed at a false match rate, as one would by hand', () => {
    const [genuine, impostor]: number[][] = [[], []];
    all.forEach((a, i) => {
      for (const b of all.slice(0, i)) (a.name === b.name ? genuine! : impostor!).push(cosine(a.vector, b.vector));
    });
    const { verification } = clear!();
    assert.deepEqual([verification.genuine, verification.impostor], [30 * 6, (440 * 439) / 2 - 30 * 6]);
    for (const { rate, missed, threshold } of verification.at) {
      assert.ok(impostor!.filter((s) => s >= threshold - 1e-6).length <= rate * impostor!.length + 1);
      const misses = genuine!.filter((s) => s < threshold).length;
      assert.ok(Math.abs(missed.value - misses / genuine!.length) < 1.5 / genuine!.length);
    }
    const apart = (t: number) =>
      genuine!.filter((s) => s < t).length / genuine!.length -
      impostor!.filter((s) => s >= t).length / impostor!.length;
    const crossing = genuine!.toSorted((a, b) => Math.abs(apart(a)) - Math.abs(apart(b)))[0]!;
    const rate = genuine!.filter((s) => s < crossing).length / genuine!.length;
    assert.ok(Math.abs(verification.equalErrorRate.value - rate) < 0.02);
  });

  it('searches encrypted: scores err as planned, and rates are those in the clear but for that', () => {
    const { error, planned, profile } = whole.encrypted;
    assert.equal(profile, 'compact');
    assert.ok(error.rms > 0.3 * planned.total && error.rms < 1.1 * planned.total, `${error.rms} of ${planned.total}`);
    assert.ok(Math.abs(error.bias) < 0.2 * error.rms);
    const rank = (evaluation: typeof clear) => evaluation!().identification.cmc[0].value;
    assert.ok(Math.abs(rank(clear) - rank(encrypted)) <= 3 / 120);
    // Fresh noise may turn around two scores that are nearly equal: one of fifty searches at times.
    assert.ok(whole.encrypted.sameAfterRotation >= 0.9, `${whole.encrypted.sameAfterRotation}`);
  });

  it('says “too few” where fewer than three errors are expected', () => {
    const { strangers, at, curve } = clear!().openSet;
    assert.equal(strangers, 320);
    // 3.2 at 1 %, 0.32 at 0.1 %.
    assert.deepEqual(
      at.map(({ rate, missed }: { rate: number; missed?: object }) => [rate, missed !== undefined]),
      [
        [0.01, true],
        [0.001, false],
      ],
    );
    assert.equal(curve[0].rate, 0.01);
    const rows = whole.markdown.split('\n').filter((line: string) => line.includes('too few'));
    assert.equal(rows.length, 2);
    for (const row of rows) assert.match(row, /^\| (in the clear|encrypted) \| [\d.]+ % \[.* \| [\d.-]+ \| too few \|/);
  });

  it('attacks blocks in vain, and has what is not protected beside it', () => {
    const { irreversibility, unlinkability, renewability, templates } = whole.protection;
    assert.equal(templates, 200);
    // Cosines of random directions in 8 dimensions deviate by 0.35, and their mean by a fourteenth.
    assert.ok(Math.abs(irreversibility.ciphertext.mean) < 5 * (0.36 / Math.sqrt(templates)));
    assert.ok(irreversibility.scores.mean > 0.99);
    // Eight probes that are known give all others away; rehearsing gives no more than guessing.
    assert.equal(irreversibility.knownProbes.known, DIMENSION);
    assert.ok(irreversibility.knownProbes.mean > 0.99);
    assert.ok(irreversibility.rehearsed.mean < 0.5, `${irreversibility.rehearsed.mean}`);
    // A shuffle exceeds what 95 % of shuffles stay below one time in twenty.
    for (const found of [unlinkability.twoKeys, unlinkability.oneKey]) assert.ok(found < 2 * unlinkability.likely);
    assert.ok(unlinkability.unprotected > 0.7, `${unlinkability.unprotected}`);
    assert.ok(unlinkability.chance < unlinkability.likely);
    const refused = { found: 0, refused: renewability.probes };
    assert.deepEqual([renewability.oldBlock, renewability.newBlock], [refused, refused]);
    // Five standard deviations of χ² with 255 degrees of freedom.
    const { block, query, unprotected } = whole.protection.confidentiality;
    for (const found of [block, query]) assert.ok(Math.abs(found - 1) < 5 * Math.sqrt(2 / 255), `${found}`);
    assert.ok(unprotected > 2, `${unprotected}`);
    assert.match(whole.markdown, /takes 2\^\d{3} operations, and 2\^\d{3} with a quantum computer/);
  });

  it('can be repeated: files, seed and command are named, and the same seed makes the same figures', async () => {
    const again = await report('again');
    assert.deepEqual(again.ways[0], whole.ways[0]);
    assert.deepEqual(again.protection.irreversibility.guess, whole.protection.irreversibility.guess);
    assert.deepEqual(again.vectors, whole.vectors);
    const [some, same, others] = [
      await report('some', '--sample', '60'),
      await report('same', '--sample', '60'),
      await report('others', '--sample', '60', '--random', '2'),
    ];
    assert.ok(some.vectors.taken <= 60 && some.vectors.taken > 50);
    assert.deepEqual(same.ways[0], some.ways[0]);
    assert.notDeepEqual(others.ways[0], some.ways[0]);
    const sha256 = createHash('sha256')
      .update(await readFile(join(folder.path, 'people.npy')))
      .digest('hex');
    assert.ok(whole.markdown.includes(`- SHA-256 of people.npy: ${sha256}\n`));
    assert.match(
      whole.markdown,
      /^- Command: hers report people\.npy --labels people\.txt --profile compact --sample 2000 --draws 20 --random 1 --output whole$/m,
    );
  });

  it('has its plots beside the Markdown, the same as on the page, and says what was built from what', async () => {
    const plots = [...whole.markdown.matchAll(/^!\[(.*)\]\(<(.*)>\)$/gm)];
    assert.deepEqual(
      plots.map(([, , file]) => file),
      ['whole-cmc.svg', 'whole-open-set.svg', 'whole-det.svg'],
    );
    for (const [, title, file] of plots) {
      const svg = await readFile(join(folder.path, file!), 'utf8');
      assert.ok(svg.includes(`aria-label="${title}"`) && whole.html.includes(svg));
    }
    assert.equal(whole.files.length, 5);
    assert.match(whole.markdown, /; hers \d+\.\d+\.\d+(, commit [0-9a-f]{40}(-dirty)?)?; Node v/);
  });

  it('is one page without anything from elsewhere, with a plot for each curve', () => {
    const { html } = whole;
    assert.equal([...html.matchAll(/<svg [^>]*aria-label="([^"]*)"/g)].length, 3);
    for (const curve of ['Cumulative match characteristic', 'FNIR against FPIR', 'Detection error trade-off'])
      assert.ok(html.includes(`aria-label="${curve}"`));
    assert.doesNotMatch(html, /<script|<link|src=|NaN|undefined|Infinity/);
    assert.doesNotMatch(whole.markdown, /NaN|undefined|Infinity/);
    const headings = [...whole.markdown.matchAll(/^#+ (.*)$/gm)].map(([, text]) => text);
    for (const heading of headings) assert.match(html, new RegExp(`<h[123]>${heading}</h[123]>`));
  });

  it('measures compressed vectors too, and what undoes the compressor', async () => {
    const train = ['train', 'people.npy', '--labels', 'people.txt', '--method', 'pca', '--dimension', '4'];
    const { exit, err } = await hers(folder.path, [...train, '--output', 'short.onnx']);
    assert.equal(exit, EXIT.done, err);
    const { ways, protection, markdown } = await report('short', '--sample', '120', '--compressor', 'short.onnx');
    assert.deepEqual(
      ways.map(({ name }: { name: string }) => name),
      ['in the clear', 'compressed', 'encrypted'],
    );
    const rank = (way: number) => ways[way].evaluation.identification.cmc[0].value;
    assert.ok(rank(1) < rank(0) && Math.abs(rank(1) - rank(2)) < 0.1);
    assert.ok(protection.irreversibility.compressed.mean > 0.5);
    assert.match(markdown, /of short\.onnx \(pca\), of 4 dimensions/);
  });

  it('refuses what it cannot measure, and writes over nothing', async () => {
    const run = (...args: string[]) => hers(folder.path, ['report', 'people.npy', ...args]);
    assert.match((await run('-o', 'none')).err, /there are no labels to compare answers with; add --labels or --label/);
    const before = await readFile(join(folder.path, 'whole.md'), 'utf8');
    const { exit, err } = await run('--labels', 'people.txt', '-o', 'whole');
    assert.equal(exit, EXIT.absent);
    assert.match(err, /whole\.md exists already; choose another name, or add --replace/);
    assert.equal(await readFile(join(folder.path, 'whole.md'), 'utf8'), before);
    for (const metric of ['dot', 'euclidean']) {
      const refused = await run('--labels', 'people.txt', '-o', 'none', '--metric', metric);
      assert.equal(refused.exit, EXIT.usage);
      assert.match(refused.err, new RegExp(`a report is made for cosine, not for ${metric}`));
    }
    assert.match(
      (await run('--labels', 'people.txt', '-o', 'none', '--sample', '10001')).err,
      /--sample is 10000 at most/,
    );
    await writeFile(join(folder.path, 'apart.txt'), `${all.map((_, i) => i).join('\n')}\n`);
    assert.match((await run('--labels', 'apart.txt', '-o', 'apart')).err, /no label occurs twice/);
    assert.ok(!existsSync(join(folder.path, 'apart.md')));
  });

  describe('with odd files', () => {
    const some = all.filter(({ name }) => SIZES[Number(name.slice(7))]! > 1).slice(0, 24);
    const vectors = some.map(({ vector }) => Float32Array.from(vector));
    const names = some.map(({ name }) => name);
    async function given(name: string, rows: readonly Float32Array[], labels: readonly (string | number)[]) {
      await writeFile(join(folder.path, `${name}.npy`), npy(rows, rows[0]!.length));
      await writeFile(join(folder.path, `${name}.txt`), `${labels.join('\n')}\n`);
      const command = ['report', `${name}.npy`, '--labels', `${name}.txt`, '--output', name, '--draws', '5'];
      const { exit, err } = await hers(folder.path, command);
      const text = (ending: string) => readFile(join(folder.path, `${name}.${ending}`), 'utf8').catch(() => '');
      return { exit, err, markdown: await text('md'), html: await text('html') };
    }
    const changed = (at: number, value: number, all = false) =>
      vectors.map((row, i) => (i === at ? row.map((x, k) => (all || k === 2 ? value : x)) : row));

    for (const [what, rows, labels, says] of [
      ['a NaN', changed(7, Number.NaN), names, /vector 7 holds NaN or infinity/],
      ['an infinity', changed(3, -Infinity), names, /vector 3 holds NaN or infinity/],
      ['a zero vector', changed(9, 0, true), names, /vector 9 is zero, which has no direction to compare/],
      ['one person', vectors, names.map(() => 'x'), /all vectors have the same label, so there is nobody to tell/],
      ['one vector each', vectors, [...names.keys()], /no label occurs twice/],
      ['a label too few', vectors, names.slice(1), /has 23 labels, and .* has 24 vectors; they must be as many/],
      ['a label missing', vectors, names.with(5, ''), /vector 5 has no label in a label missing\.txt/],
    ] as const)
      it(`refuses ${what}, says which vector, and writes nothing`, async () => {
        const { exit, err, markdown, html } = await given(what, rows, labels);
        assert.equal(exit, EXIT.input, err);
        assert.match(err, says);
        assert.equal(markdown + html, '');
      });

    it('refuses a sample of one person, and a name that is a folder', async () => {
      const run = (...args: string[]) => hers(folder.path, ['report', 'people.npy', '--labels', 'people.txt', ...args]);
      assert.match(
        (await run('-o', 'none', '--sample', '1')).err,
        /a sample of 1 holds one person only; raise --sample/,
      );
      for (const name of ['.', 'none/', '..']) assert.match((await run('-o', name)).err, /is a folder; add a name/);
    });

    it('says “too few” of two people', async () => {
      const { exit, err, markdown } = await given('two', vectors.slice(0, 4), ['a', 'a', 'b', 'b']);
      assert.equal(exit, EXIT.done, err);
      assert.equal([...markdown.matchAll(/too few/g)].length > 10, true);
      assert.doesNotMatch(markdown, /NaN|undefined|Infinity/);
    });

    it('finds nobody where all vectors are the same', async () => {
      const { exit, err, markdown, html } = await given(
        'alike',
        vectors.map(() => vectors[0]!),
        names,
      );
      assert.equal(exit, EXIT.done, err);
      assert.match(markdown, /^\| in the clear \| 0\.00 % \[0\.00, /m);
      assert.doesNotMatch(markdown + html, /NaN|undefined|Infinity/);
    });

    it('takes names and labels for text: they become no tag, no link and no line of their own', async () => {
      const name = '<img src=x onerror=alert(1)> [a](b) *`&lt;';
      const label = '<script>alert(2)</script>|'.repeat(400);
      const { exit, err, markdown, html } = await given(
        name,
        vectors,
        names.map((each) => label + each),
      );
      assert.equal(exit, EXIT.done, err);
      for (const text of [markdown, html]) {
        assert.doesNotMatch(text, /<img|<script|alert\(2\)/);
        assert.ok(text.includes('&lt;img src=x onerror=alert(1)'));
      }
      assert.doesNotMatch(markdown, /\[a\]\(b\)|[^\\][*`]/);
      assert.ok(markdown.includes('&amp;lt;') && html.includes('&amp;lt;'));
      const [, file] = /\(<(.*-cmc\.svg)>\)/.exec(markdown)!;
      assert.ok(existsSync(join(folder.path, decodeURIComponent(file!))));
    });
  });
});
