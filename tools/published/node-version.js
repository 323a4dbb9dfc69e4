// Imported first by every export, so that an old Node says this and not what it stumbles over.
// Pages have no version of Node.

const NEEDED = 24;

const version = globalThis.process?.versions?.node;
if (Number.parseInt(version, 10) < NEEDED)
  throw new Error(`hers: this is Node ${version}, and Node ${NEEDED} is needed; install Node ${NEEDED} or newer.`);
