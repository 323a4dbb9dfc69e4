// The cells of one CSV record that has quotation marks in it: RFC 4180, section 2, and spaces
// around a cell are not part of it.

const QUOTE = '"';

/** Nothing where quotation marks are misplaced, or a line ends outside of them. */
export function quotedCells(text: string, delimiter: string): string[] | undefined {
  const cells: string[] = [];
  const isSpace = (at: number) => at < text.length && text[at] !== delimiter && text[at]!.trim() === '';
  for (let at = 0; ; at++) {
    let from = at;
    while (isSpace(from)) from++;
    let cell: string;
    if (text[from] === QUOTE) {
      const parts: string[] = [];
      // Two marks stand for one, and what lies between two such pairs is a part.
      do {
        const mark = text.indexOf(QUOTE, from + 1);
        if (mark < 0) return undefined;
        parts.push(text.slice(from + 1, mark));
        from = mark + 1;
      } while (text[from] === QUOTE);
      cell = parts.join(QUOTE);
      const end = from;
      while (isSpace(from)) from++;
      if (hasLineEnd(text.slice(at, text.indexOf(QUOTE, at)) + text.slice(end, from))) return undefined;
      at = from;
      if (at < text.length && text[at] !== delimiter) return undefined;
    } else {
      const end = text.indexOf(delimiter, at);
      const whole = text.slice(at, end < 0 ? text.length : end);
      if (whole.includes(QUOTE) || hasLineEnd(whole)) return undefined;
      cell = whole.trim();
      at += whole.length;
    }
    cells.push(cell);
    if (at >= text.length) return cells;
  }
}

function hasLineEnd(text: string): boolean {
  return text.includes('\n') || text.includes('\r');
}
