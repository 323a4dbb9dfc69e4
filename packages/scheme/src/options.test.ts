import assert from 'node:assert/strict';
import { it } from 'node:test';
import { HersError } from './errors.ts';
import { refuseUnknown } from './options.ts';

interface Options {
  readonly limit?: number;
  readonly threshold?: number;
  readonly signal?: AbortSignal;
}
const check = (given: object) =>
  refuseUnknown<Options>(given, { limit: true, threshold: true, signal: true }, 'a search');
const refusedWith = (message: RegExp) => (error: unknown) =>
  error instanceof HersError && error.code === 'INVALID_ARGUMENT' && message.test(error.message);

it('known options pass, whatever their values', () => {
  check({});
  check({ limit: 1, threshold: undefined });
  check(Object.create({ inherited: 1 }));
});

it('another option is refused by its name, with the nearest that is known', () => {
  assert.throws(
    () => check({ treshold: 0.9 }),
    refusedWith(/^a search has no option "treshold"; did you mean threshold\?$/),
  );
  assert.throws(() => check({ limit: 5, Limit: 5 }), refusedWith(/"Limit"; did you mean limit\?/));
  assert.throws(() => check({ wholly: 'different' }), refusedWith(/^a search has no option "wholly": it has limit, /));
  for (const name of ['toString', '__proto__x', 'constructor', '', 'x'.repeat(10_000)])
    assert.throws(() => check({ [name]: 1 }), refusedWith(/^a search has no option/));
});

it("a class of one's own errors can be given", () => {
  class OwnError extends Error {
    readonly code: string;
    constructor(code: string, message: string) {
      super(message);
      this.code = code;
    }
  }
  const given = { treshold: 1 } as Options;
  assert.throws(
    () => refuseUnknown(given, { limit: true, threshold: true, signal: true }, 'a search', 'option', OwnError),
    (error) => error instanceof OwnError && error.code === 'INVALID_ARGUMENT' && /treshold/.test(error.message),
  );
});

it('what is no object is refused', () => {
  for (const given of [null, 5, 'limit'])
    assert.throws(() => check(given as unknown as object), refusedWith(/^the options of a search are an object$/));
});
