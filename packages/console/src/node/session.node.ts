// Who may use a console: whoever opened the address that its command has printed, once.
//
// The secret of the address is in its fragment, so no request and no log holds it. The page sends
// it once, and gets two things for it. A cookie, which scripts cannot read; but cookies know no
// ports, so every other server of this machine that is opened in the same browser is sent it. And
// a token, which the page keeps for its origin, and origins do know ports. A request needs both.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const random = () => randomBytes(32).toString('base64url');

/** Compared by their hashes: neither length nor time tells anything. */
function isSame(one: string, other: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(one), hash(other));
}

export class Session {
  /** For the address. */
  readonly secret: string = random();
  readonly #cookieName: string;
  readonly #cookie = random();
  readonly #token = random();
  #isOpen = false;

  /** Ports tell the cookies of consoles from each other, though not who is sent them. */
  constructor(port: number) {
    this.#cookieName = `hers-console-${port}`;
  }

  /** The token and the header of the cookie for the secret, the first time that it is shown. */
  open(secret: string): { readonly token: string; readonly cookie: string } | undefined {
    if (this.#isOpen || !isSame(secret, this.secret)) return undefined;
    this.#isOpen = true;
    return { token: this.#token, cookie: `${this.#cookieName}=${this.#cookie}; Path=/; HttpOnly; SameSite=Strict` };
  }

  /** Whether a request shows both. */
  admits(cookies: string | undefined, token: string | string[] | undefined): boolean {
    return typeof token === 'string' && isSame(token, this.#token) && this.knows(cookies);
  }

  /** Whether a request shows the cookie, which other servers of this machine may have seen. */
  knows(cookies: string | undefined): boolean {
    if (!this.#isOpen) return false;
    const pairs = (cookies ?? '').split(';').map((pair) => pair.trim().split('='));
    // Another server of this machine can set a cookie of the same name, and browsers send both.
    const shown = pairs.filter(([name, value = '']) => name === this.#cookieName && isSame(value, this.#cookie));
    return shown.length > 0;
  }
}
