// Files that this page gives to the person before it.

/** Saves a file from this page. */
export function save(name: string, content: BlobPart[], type = 'application/octet-stream'): void {
  const url = URL.createObjectURL(new Blob(content, { type }));
  const link = Object.assign(document.createElement('a'), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
