// Who may do what. A token is 32 random bytes behind a name; the file keeps the SHA-256 of the
// whole, which for something that nobody could guess is as good as a slow hash. The file is looked
// at with every request, so what is revoked is refused from then on.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { HersError, isCollectionName, PARTITION_BYTES } from '@hers/service';
import { isFileThere, replaceFile, stampOf } from '@hers/service/target';
import { lockFile } from '@hers/store/file-lock';
import type { Scope } from './routes.ts';

/** What is known of a token. Its secret is not kept. */
export interface Token {
  /** Public: in logs, in the audit log, and to revoke it by. */
  readonly id: string;
  /** What it allows. */
  readonly scope: Scope;
  /** The only collection it is for. */
  readonly collection?: string;
  /** The only partitions of it that it is for: their handles, in hexadecimal digits. */
  readonly partitions?: readonly string[];
  /** Of scope device: the number of the only device whose envelopes it may post. */
  readonly device?: number;
  /** For people: who has it. */
  readonly note?: string;
  /** ISO 8601. */
  readonly created: string;
  /** The id of the token that made it, where one did: revoking that revokes this. */
  readonly by?: string;
}

interface StoredToken extends Token {
  /** SHA-256 of the token, in hex. */
  readonly hash: string;
}

const FORMAT = 1;

interface TokenFile {
  readonly format: typeof FORMAT;
  readonly tokens: readonly StoredToken[];
}

/** What tokens can be for, each more than the one before; but for `device`, which stands alone. */
export const SCOPES: readonly Scope[] = ['device', 'search', 'write', 'admin'];
const SHAPE = /^hers_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;
/** How long others may take with the file. */
const LOCK_MS = 5000;

const sha256 = (text: string) => createHash('sha256').update(text).digest();

const PARTITION = new RegExp(`^[0-9a-f]{${2 * PARTITION_BYTES}}$`);
/** Before what belongs to all partitions. */
const OF_ALL = '0'.repeat(2 * PARTITION_BYTES);
/** Of one token: every request looks them up. */
const MAX_PARTITIONS = 1000;

function arePartitions(partitions: unknown): partitions is readonly string[] {
  return (
    Array.isArray(partitions) &&
    partitions.length > 0 &&
    partitions.length <= MAX_PARTITIONS &&
    partitions.every((each) => typeof each === 'string' && PARTITION.test(each) && each !== OF_ALL)
  );
}

const isDevice = (x: unknown) => Number.isInteger(x) && (x as number) >= 1 && (x as number) < 2 ** 32;

/**
 * Whether a token of one scope may do what needs another. What a device does, a writer may do; a
 * device may do nothing else.
 */
export function allows(has: Scope, needs: Scope): boolean {
  if (has === 'device') return needs === 'device';
  if (needs === 'device') return allows(has, 'write');
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
  const isToken = ({ id, hash, scope, collection, partitions, device, by = id }: StoredToken) =>
    /^[0-9a-f]{12}$/.test(id) &&
    /^[0-9a-f]{12}$/.test(by) &&
    /^[0-9a-f]{64}$/.test(hash) &&
    SCOPES.includes(scope) &&
    (collection === undefined || isCollectionName(collection)) &&
    (scope === 'device'
      ? collection !== undefined && partitions === undefined && isDevice(device)
      : device === undefined) &&
    (partitions === undefined || (collection !== undefined && scope !== 'admin' && arePartitions(partitions)));
  if (file?.format !== FORMAT || !Array.isArray(file.tokens) || !file.tokens.every(isToken)) throw damaged();
  return file;
}

const publicPart = ({ hash: _, ...token }: StoredToken): Token => token;

/**
 * Reads and changes a token file.
 *
 * @throws {HersError} DAMAGED: for a file that cannot be understood; restore it from a copy.
 */
export class TokenStore {
  /** Of the file that keeps the hashes. */
  readonly path: string;

  /**
   * Opens nothing yet: the file is made with the first token.
   *
   * @param path - Of the file that keeps the hashes.
   */
  constructor(path: string) {
    this.path = path;
  }

  async #read(): Promise<TokenFile> {
    try {
      return parseFile(await readFile(this.path, 'utf8'), this.path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      return { format: FORMAT, tokens: [] };
    }
  }

  /** All that are valid. */
  async list(): Promise<Token[]> {
    return (await this.#read()).tokens.map(publicPart);
  }

  /**
   * Makes a token. Its secret is returned here and never again.
   *
   * @param made - What it allows, perhaps for which collection, partitions or device, who has it,
   *   and which token made it.
   * @throws {HersError} INVALID_ARGUMENT: for a scope that there is not, a name that no collection
   *   can have, partitions without a collection, with scope admin, or not given by their handles,
   *   or a device without scope device and a collection; where its path is no file, but a folder or
   *   a link.
   * @throws {HersError} LOCKED: where another process has held the file for five seconds.
   * @example
   * const { secret } = await new TokenStore('./tokens.json').create({ scope: 'search' });
   */
  async create(
    made: Pick<Token, 'scope' | 'collection' | 'partitions' | 'device' | 'note' | 'by'>,
  ): Promise<{ token: Token; secret: string }> {
    const { scope, collection, partitions, device, note, by } = made;
    if (!SCOPES.includes(scope))
      throw new HersError('INVALID_ARGUMENT', `a scope is one of ${SCOPES.join(', ')}, not ${JSON.stringify(scope)}`);
    if (collection !== undefined && !isCollectionName(collection))
      throw new HersError('INVALID_ARGUMENT', `${JSON.stringify(collection)} is not the name of a collection`);
    if (partitions !== undefined) {
      if (!arePartitions(partitions))
        throw new HersError(
          'INVALID_ARGUMENT',
          `a partition is given by its handle, ${2 * PARTITION_BYTES} hexadecimal digits, as hers partitions shows it; ${MAX_PARTITIONS} at most`,
        );
      if (collection === undefined || scope === 'admin')
        throw new HersError(
          'INVALID_ARGUMENT',
          'a token that is limited to partitions is for one collection, and of scope search or write',
        );
    }
    if (scope === 'device' && !(collection !== undefined && partitions === undefined && isDevice(device)))
      throw new HersError(
        'INVALID_ARGUMENT',
        'a token of scope device is for one collection and the number of one device, as hers devices list shows it',
      );
    if (scope !== 'device' && device !== undefined)
      throw new HersError('INVALID_ARGUMENT', 'only a token of scope device is for one device');
    const id = randomBytes(6).toString('hex');
    const secret = `hers_${id}_${randomBytes(32).toString('base64url')}`;
    const token: Token = {
      id,
      scope,
      ...(collection === undefined ? {} : { collection }),
      ...(partitions === undefined ? {} : { partitions }),
      ...(device === undefined ? {} : { device }),
      ...(note === undefined ? {} : { note }),
      created: new Date().toISOString(),
      ...(by === undefined ? {} : { by }),
    };
    await this.#change((tokens) => [...tokens, { ...token, hash: sha256(secret).toString('hex') }]);
    return { token, secret };
  }

  /**
   * Revokes a token, and all that were made with it: from the next request on they are refused.
   *
   * @param id - Its public part, as `list` shows it.
   * @throws {HersError} NOT_FOUND: where there is none of this id.
   * @throws {HersError} INVALID_ARGUMENT: where its path is no file, but a folder or a link.
   * @throws {HersError} LOCKED: where another process has held the file for five seconds.
   */
  async revoke(id: string): Promise<Token> {
    let revoked: Token | undefined;
    await this.#change((tokens) => {
      const found = tokens.find((token) => token.id === id);
      if (!found) throw new HersError('NOT_FOUND', `there is no token ${JSON.stringify(id)} in ${this.path}`);
      revoked = publicPart(found);
      const gone = new Set([id]);
      // What a token has made comes after it.
      for (const token of tokens) if (token.by !== undefined && gone.has(token.by)) gone.add(token.id);
      return tokens.filter((token) => !gone.has(token.id));
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
      const tokens = change((await this.#read()).tokens);
      const file: TokenFile = { format: FORMAT, tokens };
      await replaceFile(this.path, (handle) => handle.writeFile(`${JSON.stringify(file, null, 2)}\n`));
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

  /**
   * Opens nothing yet.
   *
   * @param path - Of the file that keeps the hashes.
   */
  constructor(path: string) {
    this.#path = path;
  }

  /** Reads the file where it has changed. One that is gone or damaged allows nothing. */
  async #refresh(): Promise<void> {
    let stamp: string;
    try {
      stamp = stampOf(this.#path);
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

  /**
   * How many there are.
   *
   * @throws {HersError} DAMAGED: for a file that cannot be understood; restore it from a copy.
   */
  async count(): Promise<number> {
    await this.#refresh();
    return this.#tokens.size;
  }

  /**
   * The token that an Authorization header holds.
   *
   * @param header - What the Authorization header of a request holds.
   * @throws {HersError} UNAUTHENTICATED: where it holds no token, or none that is known.
   * @throws {HersError} UNAVAILABLE: where the file cannot be read.
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
