// What comes one by one, in arrays of so many.

export async function* inParts<T>(items: Iterable<T> | AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let part: T[] = [];
  for await (const item of items) {
    part.push(item);
    if (part.length === size) {
      yield part;
      part = [];
    }
  }
  if (part.length > 0) yield part;
}
