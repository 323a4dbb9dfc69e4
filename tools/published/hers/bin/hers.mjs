#!/usr/bin/env node
// Starts the command `hers`. It imports nothing by itself, because an old Node must be able to read
// it as far as the sentence.

const NEEDED = 24;

if (Number.parseInt(process.versions.node, 10) < NEEDED) {
  console.error(
    `hers: this is Node ${process.versions.node}, and Node ${NEEDED} is needed; install Node ${NEEDED} or newer.`,
  );
  process.exitCode = 1;
} else {
  await import('../lib/cli/src/main.js');
}
