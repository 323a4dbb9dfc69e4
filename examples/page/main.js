import { connect, MasterSeed } from '@hers/client';

const DIMENSION = 64;
const form = document.querySelector('form');
const output = document.querySelector('output');

// A real page asks for a passphrase and opens a sealed key with it (`openKey`).
const key = MasterSeed.generate();
const vectors = Array.from({ length: 1000 }, () => Array.from({ length: DIMENSION }, () => Math.random() - 0.5));

/** A probe as it comes in life: close to the template, not equal. */
const seenAgain = (vector) => vector.map((x) => x + 0.1 * (Math.random() - 0.5));

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const { server, token, index } = Object.fromEntries(new FormData(form));
  output.textContent = 'Encrypting…';
  try {
    // Workers encrypt; the page stays responsive.
    const db = await connect(server, { key, ...(token && { token }) });
    const faces = await db.createCollection(`page-${Date.now()}`, { dimension: DIMENSION });
    await faces.upsert(vectors.map((vector, i) => ({ id: `person ${i}`, vector })));
    const { matches } = await faces.search(seenAgain(vectors[index]), { limit: 1 });
    await db.close();
    output.textContent = `Found ${matches[0].id}, score ${matches[0].score.toFixed(3)}`;
  } catch (error) {
    output.textContent = `${error.code ?? error.name}: ${error.message}`;
  }
});
