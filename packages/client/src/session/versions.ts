// What a client has seen of every collection, and holds the store to: which collection a name
// means, the newest manifest, and the candidates that a store was shown without showing in turn
// that its answer was right. Kept beside the key, so that what a store shows later is compared with
// it.

import { HersError } from '@hers/service';

/** Where a collection is: the address of a gallery, and a name in it. */
export interface Place {
  /** Which gallery, as `galleryOf` names it. */
  readonly gallery: string;
  /** The name of the collection. */
  readonly name: string;
}

/** The newest state of a collection that this client has seen. */
export interface Seen {
  /** Of the collection, hexadecimal. */
  readonly id: string;
  /** Of the newest manifest. */
  readonly version: number;
  /** Of that manifest, hexadecimal, where more than the number is known. */
  readonly hash?: string;
  /** Candidate sets that the store was shown and that are not verified (candidates.ts). */
  readonly unverified?: readonly string[];
  /** The store gave a wrong score: nothing is fetched because of one until a person says so. */
  readonly stopped?: boolean;
  /** This client has deleted it. */
  readonly deleted?: boolean;
  /** Those of this name that it deleted before, the last one last. */
  readonly deletedIds?: readonly string[];
}

/**
 * Deletions remembered of a place: a store gains nothing from waiting, and no file grows forever.
 */
const MAX_DELETED = 64;

export function deletedAt(seen: Seen | undefined): Pick<Seen, 'deletedIds'> {
  const ids = [...(seen?.deletedIds ?? []), ...(seen?.deleted ? [seen.id] : [])];
  return ids.length > 0 ? { deletedIds: [...new Set(ids)].slice(-MAX_DELETED) } : {};
}

/** Whether a collection of this id is the first there is to see at a place. */
export function isFirstContact(seen: Seen | undefined, id: string): boolean {
  return !seen || (seen.deleted === true && !deletedAt(seen).deletedIds?.includes(id));
}

/**
 * Remembers what was seen. Without one it is remembered for as long as the connection lasts, and a
 * first contact trusts what it is shown. What a method throws ends the call that asked.
 *
 * @param place - A gallery, and a name in it.
 */
export interface VersionMemory {
  /** Returns what was seen there last, if anything was. */
  read(place: Place): Promise<Seen | undefined>;
  /**
   * Replaces what is remembered of a place by what `change` makes of it, with nothing in between;
   * forgets it when that is undefined. Throws what `change` throws.
   *
   * @param change - Makes what is remembered from what was. It is not called twice.
   * @param options - What is `isFleeting` may be lost when the power fails, and in no other way.
   */
  update(
    place: Place,
    change: (seen: Seen | undefined) => Seen | undefined,
    options?: { readonly isFleeting?: boolean },
  ): Promise<Seen | undefined>;
  /**
   * Returns the places where a collection of this id was seen, or is among those that were deleted.
   *
   * @param id - Of a collection, hexadecimal.
   */
  places(id: string): Promise<readonly { readonly place: Place; readonly seen: Seen }[]>;
}

/** All that is remembered, as data. */
export class Sightings {
  readonly #rows = new Map<string, { readonly place: Place; readonly seen: Seen }>();

  static #key({ gallery, name }: Place): string {
    return `${name}\n${gallery}`;
  }

  get(place: Place): Seen | undefined {
    return this.#rows.get(Sightings.#key(place))?.seen;
  }

  set(place: Place, seen: Seen | undefined): void {
    const key = Sightings.#key(place);
    if (seen) this.#rows.set(key, { place: { gallery: place.gallery, name: place.name }, seen });
    else this.#rows.delete(key);
  }

  of(id: string): { readonly place: Place; readonly seen: Seen }[] {
    return this.all().filter(({ seen }) => seen.id === id || seen.deletedIds?.includes(id));
  }

  all(): { readonly place: Place; readonly seen: Seen }[] {
    return [...this.#rows.values()];
  }
}

/** Remembers for as long as the process lives. */
export class InMemoryVersions implements VersionMemory {
  readonly #sightings = new Sightings();

  async read(place: Place): Promise<Seen | undefined> {
    return this.#sightings.get(place);
  }

  async update(place: Place, change: (seen: Seen | undefined) => Seen | undefined): Promise<Seen | undefined> {
    const seen = change(this.#sightings.get(place));
    this.#sightings.set(place, seen);
    return seen;
  }

  async places(id: string): Promise<readonly { readonly place: Place; readonly seen: Seen }[]> {
    return this.#sightings.of(id);
  }
}

/** A manifest that a store has shown, opened and authenticated. */
export interface Shown {
  readonly id: string;
  readonly version: number;
  readonly hash: string;
  /** The hashes of those before it, the newest first, as far as it names them. */
  readonly history: readonly string[];
}

/** How a person accepts what a client refuses. */
export const howToAccept = (name: string) =>
  `Find out why; if it is right all the same, database.accept(${JSON.stringify(name)}), or hers collections accept ${name}, goes on`;

/**
 * Returns what is remembered after this manifest was shown. INTEGRITY when it contradicts what was
 * seen: another collection, an older version, or another history. Between versions further apart
 * than a manifest names hashes nothing can be told; SECURITY.md says so.
 */
export function seenAfter(seen: Seen | undefined, shown: Shown, name: string): Seen {
  const { id, version, hash, history } = shown;
  const now: Seen = { id, version, hash };
  if (!seen || isFirstContact(seen, id)) return { ...now, ...deletedAt(seen) };
  const refuse = (what: string): never => {
    throw new HersError('INTEGRITY', `collection ${JSON.stringify(name)} ${what}. ${howToAccept(name)}`);
  };
  if (seen.deleted) return refuse('is there again after this client has deleted it');
  if (seen.id !== id)
    return refuse(
      'is not the one that was seen under this name: another client has deleted it and made it again, or the store shows one for another',
    );
  if (version < seen.version)
    return refuse(`was rolled back: it is at version ${version} and version ${seen.version} was seen before`);
  const kept: Seen = { ...seen, ...now };
  if (seen.hash === undefined) return kept;
  const before = version === seen.version ? hash : history[version - seen.version - 1];
  if (before !== undefined && before !== seen.hash)
    return refuse(
      `has another history than the one that was seen: ${
        version === seen.version
          ? `the store shows another version ${version} than before`
          : `what the store shows as version ${version} does not follow from version ${seen.version}`
      }`,
    );
  return kept;
}

/**
 * Returns what was seen under the same name in another gallery of a collection that is the first to
 * see here. INTEGRITY when this gallery has shown it under another name: the store may show one for
 * another, and a snapshot restored beside its original looks the same.
 */
export async function seenElsewhere(memory: VersionMemory, place: Place, id: string): Promise<Seen | undefined> {
  const { gallery, name } = place;
  const known = await memory.places(id);
  const others = known.filter((other) => other.place.gallery === gallery && other.place.name !== name);
  if (others.length > 0) {
    const kept = others.find(({ seen }) => seen.id === id && !seen.deleted);
    const what = kept
      ? `is the one that was seen under the name ${JSON.stringify(kept.place.name)}`
      : `is one that this client has deleted under the name ${JSON.stringify(others[0].place.name)}`;
    throw new HersError(
      'INTEGRITY',
      `collection ${JSON.stringify(name)} ${what}: another client has restored a snapshot of it, or the store shows one for another. ${howToAccept(name)}`,
    );
  }
  const [newest] = known
    .filter((other) => other.place.name === name && other.seen.id === id && !other.seen.deleted)
    .sort((a, b) => b.seen.version - a.seen.version);
  if (!newest) return undefined;
  // What was deleted there says nothing about this gallery. Candidates that were shown count
  // wherever: the same store may have another address.
  const { deletedIds: _, ...seen } = newest.seen;
  return seen;
}

/** As `seenAfter`, but something newer that others have seen meanwhile stays. */
export function laterOf(seen: Seen | undefined, shown: Shown, name: string): Seen {
  return seen && seen.id === shown.id && seen.version > shown.version ? seen : seenAfter(seen, shown, name);
}
