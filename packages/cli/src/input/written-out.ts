// A vector written out: `[0.1, 0.2]`, `0.1 0.2` or `0.1;0.2`, in an argument or in a cell.

/** Its numbers, as text; undefined where a bracket stands alone. */
export function writtenOut(text: string): string[] | undefined {
  const whole = text.trim();
  const isOpen = whole.startsWith('[');
  if (isOpen !== whole.endsWith(']')) return undefined;
  return (isOpen ? whole.slice(1, -1) : whole).trim().split(/[\s,;]+/);
}
