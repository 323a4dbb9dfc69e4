// Loaded before each test file. The test runner follows every promise to the test that made it, so
// that it can name this test when an error is caught nowhere. That costs tests with many promises a
// third of their time. Here it follows everything but promises, which it needs for finding out where
// a test belongs. Such an error still fails the file, and the runner prints it.
//
// The runner follows by the first async hook of the process. Should another Node do without, tests
// are merely slower.

import hooks from 'node:async_hooks';

const { createHook } = hooks;

hooks.createHook = (callbacks) => {
  hooks.createHook = createHook;
  return createHook({ ...callbacks, trackPromises: false });
};
