// Everything that is secret stays in this page: the key (sealed by the passphrase in localStorage), the colours, their names, and the scores.

import { connect, HersError, MasterSeed, openKey, sealKey } from './hers.js';

const COLOURS = {
  black: '#000000',
  grey: '#808080',
  white: '#ffffff',
  red: '#ff0000',
  maroon: '#800000',
  salmon: '#fa8072',
  orange: '#ffa500',
  gold: '#ffd700',
  yellow: '#ffff00',
  olive: '#808000',
  lime: '#00ff00',
  green: '#008000',
  teal: '#008080',
  cyan: '#00ffff',
  'sky blue': '#87ceeb',
  'steel blue': '#4682b4',
  blue: '#0000ff',
  navy: '#000080',
  indigo: '#4b0082',
  purple: '#800080',
  violet: '#ee82ee',
  magenta: '#ff00ff',
  pink: '#ffc0cb',
  brown: '#a52a2a',
  chocolate: '#d2691e',
  tan: '#d2b48c',
};

const $ = (id) => document.getElementById(id);
const say = (text) => {
  $('says').textContent = text;
};
const vectorOf = (colour) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);

/** The key of this browser; a new one the first time. */
async function keyOf(passphrase) {
  const sealed = localStorage.getItem('hers key');
  if (sealed) return openKey(sealed, passphrase);
  const key = MasterSeed.generate();
  localStorage.setItem('hers key', await sealKey(key, passphrase));
  return key;
}

async function collectionOf(db) {
  try {
    return await db.collection('colours');
  } catch (error) {
    if (!(error instanceof HersError && error.code === 'NOT_FOUND')) throw error;
    return db.createCollection('colours', { dimension: 3, metric: 'euclidean', normBound: Math.sqrt(3) });
  }
}

/** Does something when a form is sent, and says what is wrong when that fails. */
function on(id, action) {
  $(id).addEventListener('submit', async (event) => {
    event.preventDefault();
    try {
      await action(Object.fromEntries(new FormData(event.target)));
    } catch (error) {
      say(error.message);
    }
  });
}

let colours;

on('open', async ({ url, token, passphrase }) => {
  say('Opening …');
  const db = await connect(url, { key: await keyOf(passphrase), ...(token ? { token } : {}) });
  colours = await collectionOf(db);
  // Writing what is there already changes nothing.
  await colours.upsert(
    Object.entries(COLOURS).map(([id, colour]) => ({ id, vector: vectorOf(colour), payload: colour })),
  );
  await colours.optimize();
  $('open').hidden = true;
  $('search').hidden = false;
  say(`${await colours.count()} colours are enrolled, and the server can read none of them.`);
});

on('search', async ({ colour }) => {
  const { matches } = await colours.search(vectorOf(colour), { limit: 3 });
  $('matches').replaceChildren(
    ...matches.map(({ id, score }) =>
      Object.assign(document.createElement('li'), { textContent: `${id}, ${score.toFixed(2)} away` }),
    ),
  );
});
