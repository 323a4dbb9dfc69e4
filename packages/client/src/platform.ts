// Where this runs. What is for Node alone is loaded by dynamic import where this says so; the browser's module is built with a plain `false`, and without all of that.

export const inNode = typeof process === 'object' && typeof process.versions?.node === 'string';
