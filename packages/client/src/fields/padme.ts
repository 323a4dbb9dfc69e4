// Padmé, the rule by which the sizes of sealed columns are padded (Nikitin, Barman, Lueks,
// Underwood, Hubaux, Ford: Reducing Metadata Leakage from Encrypted Files and Communication with
// PURBs, PETS 2019, section 4). A size says O(log log) bits about what it covers, for at most 12 %.

/** The length to which this many bytes are padded. */
export function padme(length: number): number {
  if (length < 2) return length;
  const exponent = 31 - Math.clz32(length);
  const digits = 32 - Math.clz32(exponent);
  const step = 2 ** (exponent - digits);
  return step <= 1 ? length : Math.ceil(length / step) * step;
}
