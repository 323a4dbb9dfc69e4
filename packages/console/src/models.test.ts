// Models in the page, in Chromium under its policy: photographs from a file, from the clipboard and
// from a camera, sentences, and a model of the user's own. The pictures are those that the package
// of the model brings along.
//
// Long: console.test.ts is the short form.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { crc32 } from 'node:zlib';
import { encodings } from '@hers/client/testing';
import { type Browser, type CDPSession, chromium, type Locator, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { filmOf, openTrial, PASSPHRASE, type Trial } from '../testing/trial.ts';
import { Pieces, type Vocabulary } from './models/sentences.ts';
import { findModels, openModel } from './node/index.node.ts';
import { modelFile } from './node/models.node.ts';

const browserPart = part('browser');
const require = createRequire(import.meta.url);
const faceApi = dirname(require.resolve('@vladmandic/face-api/package.json'));
const samples = join(faceApi, 'demo');

/** A picture of that size, as a PNG file in base64; runs in the page. */
function drawn([width, height]: readonly [number, number]): string {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [width, height];
  canvas.getContext('2d')!.fillRect(1, 1, width / 2, height / 2);
  return canvas.toDataURL('image/png').split(',')[1]!;
}

/** The same file, whose head says that it is a square of that side. */
function grown(png: Buffer, side: number): Buffer {
  const copy = Buffer.from(png);
  copy.writeUInt32BE(side, 16);
  copy.writeUInt32BE(side, 20);
  copy.writeUInt32BE(crc32(copy.subarray(12, 29)), 29);
  return copy;
}

describe('pieces of a text', () => {
  const vocabulary: Vocabulary = [
    ...Array.from({ length: 6 }, (_, i) => [`<${i}>`, 0] as const),
    ['\u2581', -3],
    ['\u2581a', -2],
    ['a', -2.5],
    ['b', -3.5],
    ['ab', -4.1],
    ['aba', -7],
    ['\u2581ab', -6.5],
  ];

  /** The score of every way to cut it, by trying all. */
  function* cuts(letters: readonly string[]): Generator<{ numbers: number[]; score: number }> {
    if (letters.length === 0) {
      yield { numbers: [], score: 0 };
      return;
    }
    for (let end = 1; end <= letters.length; end++) {
      const number = vocabulary.findIndex(([piece], at) => at >= 6 && piece === letters.slice(0, end).join(''));
      if (number < 0) continue;
      for (const { numbers, score } of cuts(letters.slice(end)))
        yield { numbers: [number, ...numbers], score: score + vocabulary[number]![1] };
    }
  }

  it('are the most likely of all ways to cut it', () => {
    const pieces = new Pieces(vocabulary);
    const scoreOf = (numbers: readonly number[]) => numbers.reduce((sum, number) => sum + vocabulary[number]![1], 0);
    for (const text of ['a', 'ab', 'aba', 'abab', 'a b', 'baab ab', 'ab ab aba'])
      assert.ok(
        Math.abs(
          scoreOf(pieces.encode(text)) -
            Math.max(...[...cuts([...`\u2581${text.replaceAll(' ', '\u2581')}`])].map(({ score }) => score)),
        ) < 1e-9,
        text,
      );
  });

  it('are one piece for letters together that it does not know, and none for nothing', () => {
    const pieces = new Pieces(vocabulary);
    assert.deepEqual(pieces.encode('axxa'), [7, 0, 8]);
    assert.deepEqual(pieces.encode(''), []);
  });
});

describe('files of models', () => {
  it('are those that are needed, and nothing beside or above them', async () => {
    const { models, missing } = findModels([]);
    assert.deepEqual(
      models.map(({ facts }) => facts.name),
      ['faces', 'sentences'],
    );
    assert.deepEqual(missing, []);
    for (const path of ['faces/worker.js', 'faces/dist/face-api.esm.js', 'sentences/dist/vocab.json'])
      assert.ok(((await modelFile(models, path))?.bytes ?? 0) > 10, path);
    const not = [
      'faces/package.json',
      'faces/../faces/worker.js',
      'faces/dist/../package.json',
      'faces/',
      'x/worker.js',
    ];
    for (const path of [...not, 'faces/%2e%2e/package.json', 'sentences/dist/index.js', 'faces//etc/passwd'])
      assert.equal(await modelFile(models, path), undefined, path);
  });

  it('of the user are below the folder that was named, and described', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'hers-model-'));
    t.after(() => rm(folder, { recursive: true }));
    const own = join(folder, 'own');
    await mkdir(own);
    const refused = (reason: RegExp) => assert.rejects(openModel(own), { code: 'INVALID_ARGUMENT', message: reason });
    await refused(/it is not there/);
    const about = { name: 'tiny', takes: 'text', dimension: 4 };
    const write = (value: unknown) => writeFile(join(own, 'hers-model.json'), JSON.stringify(value));
    await writeFile(join(own, 'hers-model.json'), '{');
    await refused(/not JSON/);
    for (const [value, reason] of [
      [null, /"name"/],
      [{ ...about, name: '../x' }, /"name"/],
      [{ ...about, takes: 'sound' }, /"takes"/],
      [{ ...about, dimension: 1 }, /"dimension"/],
      [{ ...about, metric: 'far' }, /"metric"/],
      [{ ...about, metric: 'dot' }, /"normBound"/],
      [{ ...about, module: '../../x.js' }, /"module"/],
      [{ ...about, module: "x';alert(1)//.js" }, /"module"/],
      [about, /index.js is not there/],
    ] as const) {
      await write(value);
      await refused(reason);
    }
    await writeFile(join(own, 'index.js'), 'export const load = 1;');
    await writeFile(join(folder, 'secret'), 'x');
    await symlink(join(folder, 'secret'), join(own, 'link'));
    const model = await openModel(own);
    assert.ok(await modelFile([model], 'tiny/index.js'));
    for (const path of ['tiny/link', 'tiny/../secret', 'tiny/.', 'tiny/'])
      assert.equal(await modelFile([model], path), undefined, path);
  });
});

describe('models in the page', { skip: browserPart.skip, timeout: 240_000 }, () => {
  let trial: Trial;
  let browser: Browser;
  let page: Page;
  let folder: string;
  const complaints: string[] = [];
  const sent: Buffer[] = [];
  const vectors: Float32Array[] = [];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hers-models-'));
    const own = join(folder, 'own');
    await mkdir(own);
    await writeFile(join(own, 'hers-model.json'), '{"name":"letters","takes":"text","dimension":32}');
    // Counts letters. It also tries what a model must not be able to do.
    await writeFile(
      join(own, 'index.js'),
      `export const load = async (base) => {
        const tries = [() => fetch('https://example.com/'), () => eval('1'), () => new Function('return 1')()];
        for (const each of tries) {
          const done = await Promise.resolve().then(each).then(() => true, () => false);
          if (done) throw new Error('it could do ' + each);
        }
        if ((await fetch(new URL('/v1/collections', base))).status !== 401) throw new Error('it reaches the gallery');
        return {
          embed: async (text) => [{ vector: Float32Array.from({ length: 32 }, (_, i) => text.split(String.fromCharCode(97 + i)).length - 1) }],
        };
      };`,
    );
    // Answers at once: what is dropped and pasted is tried with it.
    const quick = join(folder, 'quick');
    await mkdir(quick);
    await writeFile(join(quick, 'hers-model.json'), '{"name":"corners","takes":"picture","dimension":32}');
    await writeFile(
      join(quick, 'index.js'),
      `export const load = async () => ({
        embed: async ({ width, height }) => [{
          vector: Float32Array.from({ length: 32 }, (_, i) => (i === 0 ? width : i === 1 ? height : 0)),
          box: { x: 0, y: 0, width: width / 2, height: height / 2 },
        }],
      });`,
    );
    const models = [await openModel(own), ...findModels([]).models, await openModel(quick)];
    trial = await openTrial(50, { models, missing: [] });
    const film = join(folder, 'camera.y4m');
    browser = await chromium.launch({
      executablePath: browserPart.path!,
      args: [
        ...['--no-sandbox', '--disable-gpu', '--use-fake-ui-for-media-stream', '--use-fake-device-for-media-stream'],
        `--use-file-for-fake-video-capture=${film}`,
      ],
    });
    const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, reducedMotion: 'reduce' });
    await context.grantPermissions(['camera', 'clipboard-read', 'clipboard-write'], {
      origin: new URL(trial.address).origin,
    });
    page = await context.newPage();
    await writeFile(film, await filmOf(page, await readFile(join(samples, 'sample2.jpg'))));
    page.setDefaultTimeout(60_000); // a model takes seconds, and more on a busy machine
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error' && !/Failed to load resource/.test(message.text()))
        complaints.push(message.text());
    });
    context.on('request', (request) =>
      sent.push(Buffer.from(`${request.method()} ${request.url()}`), request.postDataBuffer() ?? Buffer.alloc(0)),
    );
    await page.goto(trial.address);
    await page.getByText('still sealed').waitFor();
    await page.getByLabel('Passphrase').fill(PASSPHRASE);
    await button('Unlock').click();
    await page.getByRole('heading', { name: 'Collections' }).waitFor();
  });
  after(async () => {
    await browser?.close();
    await trial?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const tab = (name: string) => page.getByRole('link', { name, exact: true }).click();
  const firstId = () => page.locator('.matches .id, .results tbody th').first();

  async function make(name: string, model: string): Promise<void> {
    await page.getByRole('link', { name: 'HERS console' }).click();
    await button('New collection').click();
    await page.getByRole('dialog').getByRole('button', { name: model }).click();
    await page.getByLabel('Name').fill(name);
    await button('Make it').click();
    await page.getByRole('heading', { name }).waitFor();
  }

  it('enrol faces out of pictures, each cropped and with a name', async () => {
    await make('people', 'faces');
    await tab('enrol');
    await page.getByLabel('Pictures for people').setInputFiles(join(samples, 'sample2.jpg'));
    await button('Enrol 1 face').waitFor();
    const name = page.getByLabel('Name', { exact: true });
    assert.equal(await name.inputValue(), 'sample2');
    assert.equal(await page.locator('.people img').count(), 1);
    await name.fill(' ');
    await button('Enrol 1 face').click();
    await page.getByText('Each needs a name.').waitFor();
    await name.fill('Grace');
    await button('Enrol 1 face').click();
    await page.getByText('1 new, 0 replaced, 0 unchanged.').waitFor();
  });

  it('search by what the camera sees, and by one face of a picture that is pasted', async () => {
    await tab('search');
    await page.getByLabel('Fetch payloads').check();
    await button('Camera').click();
    await button('Take it').click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'face 1' }).waitFor();
    await button('Search').click();
    await page.getByText('1 match', { exact: true }).waitFor();
    assert.equal(await firstId().innerText(), 'Grace');
    assert.ok(Number.parseFloat(await page.locator('.matches .score').first().innerText()) < 0.4);
    assert.equal(await page.locator('.matches img').count(), 1);
    const bytes = [...(await readFile(join(samples, 'sample1.jpg')))];
    await page.evaluate((all) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(all)], 'x.jpg', { type: 'image/jpeg' }));
      dispatchEvent(new ClipboardEvent('paste', { clipboardData: data }));
    }, bytes);
    await page.getByRole('button', { name: 'face 3' }).click();
    await button('Search').click();
    await page.locator('.matches .score', { hasNotText: /^0\.[0-3]/ }).waitFor();
    assert.ok(Number.parseFloat(await page.locator('.matches .score').first().innerText()) > 0.4);
  });

  it('say that there is no face where there is none, and no picture', async () => {
    const empty = await page.evaluate(async () => {
      const canvas = document.createElement('canvas');
      canvas.width = canvas.height = 64;
      const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve));
      return [...new Uint8Array(await blob!.arrayBuffer())];
    });
    const input = page.getByLabel('A photograph');
    await input.setInputFiles({ name: 'a.png', mimeType: 'image/png', buffer: Buffer.from(empty) });
    await page.getByText('No face was found in this picture.').waitFor();
    await input.setInputFiles({ name: 'a.png', mimeType: 'image/png', buffer: Buffer.from('no picture') });
    await page.getByText('This is no picture that the browser can show.').waitFor();
  });

  it('enrol sentences, and find one by what it means', async () => {
    await make('notes', 'sentences');
    await tab('enrol');
    await page
      .getByLabel('One on each line')
      .fill('The cat sleeps on the sofa.\nThe bank raised its interest rates.\nA kitten naps on the couch.\n');
    await button('Enrol 3 sentences').click();
    await page.getByText('3 new, 0 replaced, 0 unchanged.').waitFor();
    await tab('search');
    await page.getByLabel('A sentence').fill('Money lent costs more now.');
    await button('Search').click();
    await page.getByText('3 matches').waitFor();
    assert.equal(await firstId().innerText(), 'The bank raised its interest rates.');
  });

  it('of the user run as well, and reach neither the gallery nor others', async () => {
    await page.getByRole('link', { name: 'HERS console' }).click();
    await page.getByRole('link', { name: 'faces' }).click();
    await tab('search');
    await page.getByLabel('A sentence').fill('abc');
    await button('Search').click();
    await page.getByText('10 matches').waitFor();
  });

  describe('take files that are dropped', () => {
    let devtools: CDPSession;
    const at = (name: string) => join(folder, name);

    before(async () => {
      devtools = await page.context().newCDPSession(page);
      const picture = Buffer.from(await page.evaluate(drawn, [40, 30] as const), 'base64');
      const other = Buffer.from(await page.evaluate(drawn, [30, 40] as const), 'base64');
      await writeFile(at('wide.png'), picture);
      await writeFile(at('high.png'), other);
      await writeFile(at('notes.txt'), 'no picture');
      await writeFile(at('broken.png'), picture.subarray(0, 20));
      await writeFile(at('huge.png'), picture);
      await truncate(at('huge.png'), 65_000_000);
      await writeFile(at('bomb.png'), grown(picture, 20_000));
    });

    /** A real drop of real files, as from the desktop. */
    async function drop(onto: Locator, ...names: string[]): Promise<void> {
      await onto.scrollIntoViewIfNeeded();
      const { x, y, width, height } = (await onto.boundingBox())!;
      const data = { items: [], files: names.map(at), dragOperationsMask: 1 };
      for (const type of ['dragEnter', 'dragOver', 'drop'] as const)
        await devtools.send('Input.dispatchDragEvent', { type, x: x + width / 4, y: y + height / 2, data });
    }

    const problem = (text: string) => page.locator('.problem', { hasText: text }).waitFor();

    it('onto a search: a picture, and in words what is none', async () => {
      await button('Photo').click();
      const place = page.locator('.drop');
      await drop(place, 'notes.txt');
      await problem('notes.txt is no picture.');
      await drop(place, 'broken.png');
      await problem('This is no picture that the browser can show.');
      await drop(place, 'huge.png');
      await problem('This picture is larger than 64 MB.');
      await drop(place, 'bomb.png');
      await problem('This picture has more than 100 million pixels.');
      await drop(place, 'wide.png');
      await page.getByRole('button', { name: 'face 1' }).waitFor();
      assert.equal(await page.locator('.problem p').count(), 0);
      await button('Search').click();
      await page.getByText('10 matches').waitFor();
      // What is dropped beside it does not take the place of the page.
      await drop(page.locator('header.top'), 'wide.png');
      await page.getByRole('button', { name: 'face 1' }).waitFor();
      await button('Lock').waitFor();
    });

    it('onto an enrolment: many, of which one is none, and a file of records', async () => {
      await tab('enrol');
      await page.getByRole('heading', { name: 'From pictures' }).waitFor();
      const pictures = page.locator('.drop');
      await drop(pictures, 'notes.txt');
      await problem('notes.txt is no picture.');
      await drop(pictures, 'wide.png', 'huge.png', 'notes.txt', 'high.png');
      await button('Enrol 2 faces').waitFor();
      await problem('huge.png: This picture is larger than 64 MB.');
      const bytes = [...(await readFile(at('wide.png')))];
      await page.evaluate((all) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(all)], 'pasted.png', { type: 'image/png' }));
        dispatchEvent(new ClipboardEvent('paste', { clipboardData: data }));
      }, bytes);
      await button('Enrol 3 faces').waitFor();
      await button('Enrol 3 faces').click();
      await page.getByText('3 new, 0 replaced, 0 unchanged.').waitFor();
      await writeFile(
        at('one.jsonl'),
        JSON.stringify({ id: 'dropped', vector: Array.from({ length: 32 }, (_, i) => i) }),
      );
      await drop(page.locator('.card', { hasText: 'From a file' }), 'one.jsonl');
      await page.getByRole('row', { name: /dropped/ }).waitFor();
    });
  });

  it('send nothing of a picture or a sentence, and end with the lock', async () => {
    vectors.push(Float32Array.from({ length: 32 }, (_, i) => (i < 3 ? 1 : 0)));
    const all = Buffer.concat(sent);
    assert.ok(all.length > 200_000, `${all.length} bytes were watched`);
    const jpeg = (await readFile(join(samples, 'sample2.jpg'))).subarray(1000, 1040);
    const secrets = ['interest rates', 'Money lent', 'sample1', 'Grace', 'data:image'].map((text) => Buffer.from(text));
    for (const bytes of [...secrets, jpeg, Buffer.from(vectors[0]!.buffer)])
      for (const form of encodings(bytes)) assert.ok(!all.includes(form), bytes.toString('latin1'));
    assert.equal(page.workers().filter((worker) => worker.url().includes('/models/')).length, 4);
    await button('Lock').click();
    await page.getByText('You locked it').waitFor();
    for (let i = 0; i < 50 && page.workers().some((worker) => worker.url().includes('/models/')); i++)
      await page.waitForTimeout(20);
    assert.equal(page.workers().filter((worker) => worker.url().includes('/models/')).length, 0);
    assert.deepEqual(
      complaints.filter((each) => !/Content Security Policy|Refused/.test(each)),
      [],
    );
  });
});
