// Who may do what. A token is 32 random bytes behind a name; the file keeps the SHA-256 of the
// whole, which for something that nobody could guess is as good as a slow hash. The file is looked
// at with every request, so what is revoked is refused from then on.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { statSync } from 'node:fs';
import { open, readFile, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { HersError, isCollectionName } from '@hers/service';
import { isFileThere, renameOverFile } from '@hers/service/target';
import { lockFile } from '@hers/store/file-lock';
import type { Scope } from './routes.ts';

export interface Token {
  /** Public: in logs, in the audit log, and to revoke it by. */
  readonly id: string;
  readonly scope: Scope;
  /** The only collection it is for. */
  readonly collection?: string;
  readonly note?: string;
  /** ISO 8601. */
  readonly created: string;
}

interface StoredToken extends Token {
  /** SHA-256 of the token, in hex. */
  readonly hash: string;
}

interface TokenFile {
  readonly format: 1;
  readonly tokens: readonly StoredToken[];
}

export const SCOPES: readonly Scope[] = ['search', 'write', 'admin'];
const SHAPE = /^hers_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;
/** How long others may take with the file. */
const LOCK_MS = 5000;

const sha256 = (text: string) => createHash('sha256').update(text).digest();

/** Whether a token of one scope may do what needs another. */
export function allows(has: Scope, needs: Scope): boolean {
  return SCOPES.indexOf(has) >= SCOPES.indexOf(needs);
}

function parseFile(text: string, path: string): TokenFile {
  const damaged = () => new HersError('DAMAGED', `the token file ${path} cannot be understood; restore it from a copy`);
  let file: TokenFile;
  try {
    file = JSON.parse(text);
  } catch {
    throw damaged();
  }
  const isToken = ({ id, hash, scope, collection }: StoredToken) =>
    /^[0-9a-f]{12}$/.test(id) &&
    /^[0-9a-f]{64}$/.test(hash) &&
    SCOPES.includes(scope) &&
    (collection === undefined || isCollectionName(collection));
  if (file?.format !== 1 || !Array.isArray(file.tokens) || !file.tokens.every(isToken)) throw damaged();
  return file;
}

const publicPart = ({ hash: _, ...token }: StoredToken): Token => token;

/** Reads and changes a token file. */
export class TokenStore {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  async #read(): Promise<TokenFile> {
    try {
      return parseFile(await readFile(this.path, 'utf8'), this.path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      return { format: 1, tokens: [] };
    }
  }

  async list(): Promise<Token[]> {
    return (await this.#read()).tokens.map(publicPart);
  }

  /** Makes a token. Its secret is returned here and never again. */
  async create(made: Pick<Token, 'scope' | 'collection' | 'note'>): Promise<{ token: Token; secret: string }> {
    const { scope, collection, note } = made;
    if (!SCOPES.includes(scope))
      throw new HersError('INVALID_ARGUMENT', `a scope is one of ${SCOPES.join(', ')}, not ${JSON.stringify(scope)}`);
    if (collection !== undefined && !isCollectionName(collection))
      throw new HersError('INVALID_ARGUMENT', `${JSON.stringify(collection)} is not the name of a collection`);
    const id = randomBytes(6).toString('hex');
    const secret = `hers_${id}_${randomBytes(32).toString('base64url')}`;
    const token: Token = {
      id,
      scope,
      ...(collection === undefined ? {} : { collection }),
      ...(note === undefined ? {} : { note }),
      created: new Date().toISOString(),
    };
    await this.#change((tokens) => [...tokens, { ...token, hash: sha256(secret).toString('hex') }]);
    return { token, secret };
  }

  /** NOT_FOUND where there is none of this id. */
  async revoke(id: string): Promise<Token> {
    let revoked: Token | undefined;
    await this.#change((tokens) => {
      const found = tokens.find((token) => token.id === id);
      if (!found) throw new HersError('NOT_FOUND', `there is no token ${JSON.stringify(id)} in ${this.path}`);
      revoked = publicPart(found);
      return tokens.filter((token) => token !== found);
    });
    return revoked!;
  }

  /**
   * One change at a time, even by several processes; a crash leaves the old file or the new one.
   */
  async #change(change: (tokens: readonly StoredToken[]) => readonly StoredToken[]): Promise<void> {
    isFileThere(this.path);
    const lock = await lockFile(`${this.path}.lock`, LOCK_MS);
    try {
      const { tokens } = await this.#read();
      const file: TokenFile = { format: 1, tokens: change(tokens) };
      const temporary = `${this.path}.${randomBytes(6).toString('hex')}.tmp`;
      const handle = await open(temporary, 'wx', 0o600);
      try {
        await handle.writeFile(`${JSON.stringify(file, null, 2)}\n`);
        await handle.sync();
        await handle.close();
        renameOverFile(temporary, this.path);
      } finally {
        await handle.close().catch(() => {});
        await unlink(temporary).catch(() => {});
      }
      const folder = await open(dirname(this.path), 'r');
      await folder.sync().finally(() => folder.close());
    } finally {
      lock.release();
    }
  }
}

/** Knows the tokens of a file as it is now. */
export class TokenCheck {
  readonly #path: string;
  #stamp = '';
  #tokens = new Map<string, StoredToken>();
  /** Compared with where there is no token of a name, so that this takes as long. */
  readonly #none = randomBytes(32);

  constructor(path: string) {
    this.#path = path;
  }

  /** Reads the file where it has changed. One that is gone or damaged allows nothing. */
  async #refresh(): Promise<void> {
    let stamp: string;
    try {
      const { mtimeMs, ino, size } = statSync(this.#path);
      stamp = `${mtimeMs} ${ino} ${size}`;
    } catch {
      this.#stamp = '';
      this.#tokens = new Map();
      return;
    }
    if (stamp === this.#stamp) return;
    this.#tokens = new Map();
    const { tokens } = parseFile(await readFile(this.#path, 'utf8'), this.#path);
    this.#tokens = new Map(tokens.map((token) => [token.id, token]));
    this.#stamp = stamp;
  }

  /** How many there are. */
  async count(): Promise<number> {
    await this.#refresh();
    return this.#tokens.size;
  }

  /**
   * The token that an Authorization header holds; UNAUTHENTICATED where it holds none that is
   * known.
   */
  async identify(header: string | undefined): Promise<Token> {
    await this.#refresh().catch(() => {
      throw new HersError('UNAVAILABLE', 'the server cannot read its tokens; its log says more');
    });
    const secret = /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1] ?? '';
    const stored = this.#tokens.get(SHAPE.exec(secret)?.[1] ?? '');
    const expected = stored ? Buffer.from(stored.hash, 'hex') : this.#none;
    if (!timingSafeEqual(sha256(secret), expected) || !stored)
      throw new HersError(
        'UNAUTHENTICATED',
        header === undefined ? 'this server asks for a token' : 'this token is not known, or was revoked',
      );
    return publicPart(stored);
  }
}
