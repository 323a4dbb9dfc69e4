// What a repair has brought back, and what is missing.

export interface LostRecords {
  readonly count: number;
  /** Of those whose ids are known. */
  readonly ids: readonly string[];
}

export interface RepairedCollection {
  readonly name: string;
  /**
   * Of the manifest that was found, and of the one that is there now: the same where nothing is
   * missing.
   */
  readonly found: number;
  readonly version: number;
  /** Versions that this key has seen after the one that was found. */
  readonly missingVersions: number;
  readonly records: number;
  readonly lost: LostRecords;
  readonly blocks: {
    readonly kept: number;
    /** Encrypted again, from records of the vault. */
    readonly rebuilt: number;
    /** Not there any more: their records are lost, or are elsewhere now. */
    readonly dropped: number;
  };
  /**
   * Records of the vault that no list names: deleted ones, and those of lists and versions that are
   * missing.
   */
  readonly unlisted: { readonly found: number; readonly broughtBack: number };
  /** A compressor is missing: what it had indexed is indexed without one, or lost. */
  readonly lostCompressor: boolean;
  /**
   * Evaluation keys are missing, without which open queries are not answered: `optimize` makes
   * those of the collection again, and a device that has its own is renewed.
   */
  readonly lostEvaluation: boolean;
  /** Whether all is there that was acknowledged, as far as anybody knows. */
  readonly complete: boolean;
}

/** A collection of which only sealed things are left. */
export interface UnknownCollection {
  readonly id: string;
  readonly records: number;
  readonly lists: number;
  readonly blockFiles: number;
}

export interface DamagedPlace {
  readonly file: string;
  readonly ranges: readonly { readonly from: number; readonly to: number }[];
}

export interface RepairReport {
  /**
   * `whole`: nothing was wrong, and nothing was done. `mended`: only the proofs of the catalogue
   * were, and they are made again. `rebuilt`: there is a new folder. `finished`: an earlier repair
   * was complete but for the names of its folders.
   */
  readonly outcome: 'whole' | 'mended' | 'rebuilt' | 'finished';
  /** Where the gallery is. */
  readonly folder: string;
  /** Where the damaged one is, if that was moved. */
  readonly backup?: string;
  /** Why it was not whole: what was noticed first. */
  readonly reason?: string;
  readonly complete: boolean;
  readonly collections: readonly RepairedCollection[];
  /**
   * Made with another key, and left out; where nothing was rebuilt, they are there as they were.
   */
  readonly ofOtherKeys: readonly string[];
  /** Made with this key, but no manifest of theirs opens; left out. Only copies bring them back. */
  readonly withoutManifest: readonly string[];
  /** Deleted by this client, and left out. */
  readonly deleted: readonly string[];
  /** Whose manifest is nowhere, and left out. */
  readonly unknown: readonly UnknownCollection[];
  readonly damage: readonly DamagedPlace[];
  /** Bytes that were read to find all this. */
  readonly bytes: number;
  /** Folders that an earlier repair has left behind. */
  readonly leftovers: readonly string[];
}

export interface RepairProgress {
  readonly step: 'Checking' | 'Reading' | 'Opening' | 'Writing' | 'Indexing' | 'Verifying';
  readonly done: number;
  readonly total: number;
  readonly unit: 'bytes' | 'blocks';
}
