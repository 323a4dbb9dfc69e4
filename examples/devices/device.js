// node device.js BUNDLE X Y Z …: a door camera that has made a vector of a face. It asks who that
// is, and does not learn it.

import { readFile } from 'node:fs/promises';
import { openDevice } from 'hers/device';

const [file, ...numbers] = process.argv.slice(2);
if (numbers.length === 0) {
  console.error('Usage: node device.js BUNDLE X Y Z …');
  process.exit(2);
}
const door = openDevice(undefined, await readFile(file, 'utf8'));
const { number } = await door.ask(numbers.map(Number));
console.log(`question ${number}`);
door.close();
