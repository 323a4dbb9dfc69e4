// node tools/run.mjs [script.ts] [arguments...]: build what is stale, then run the script in this
// process. Plain JavaScript, because its first task is to speak to a Node too old to read
// TypeScript.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const needed = 24;

if (Number.parseInt(process.versions.node, 10) < needed) {
  const remedy =
    process.platform === 'linux' && process.arch === 'x64'
      ? 'run `npm ci`, which brings the right Node along, and start through `npm run`'
      : `install Node ${needed} or newer`;
  console.error(`HERS needs Node ${needed}, and this is Node ${process.versions.node}: ${remedy}.`);
  process.exit(1);
}

const { buildAll } = await import('./build.ts');
if (!(await buildAll())) process.exit(1);

const [script, ...rest] = process.argv.slice(2);
if (script !== undefined) {
  const file = resolve(script);
  process.argv = [process.execPath, file, ...rest];
  await import(pathToFileURL(file).href);
}
