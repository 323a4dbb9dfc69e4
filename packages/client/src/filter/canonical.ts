// A text for a filter, the same for filters that are written differently and mean the same, as far
// as order, repetition and nesting go. What was computed for one filter is found again by it. It
// names the types of fields, too: a field may be dropped and come back with another.

import type { Test, Tree } from './tree.ts';

export function canonicalText(tree: Tree): string {
  switch (tree.kind) {
    case 'and':
      return listed('and', tree.parts.flatMap(conjuncts));
    case 'or':
      return listed('or', tree.parts.map(canonicalText));
    case 'not':
      return `not(${canonicalText(tree.part)})`;
    case 'ids':
      return `id${JSON.stringify([...tree.ids].sort())}`;
    case 'field':
      return listed('and', conjuncts(tree));
  }
}

/** A range with two bounds is the same as two ranges. */
function conjuncts(tree: Tree): string[] {
  if (tree.kind !== 'field') return [canonicalText(tree)];
  return conditions(tree.test).map((condition) => `${tree.field}:${tree.type} ${condition}`);
}

function conditions(test: Test): string[] {
  switch (test.kind) {
    case 'any':
      return ['there'];
    case 'prefix':
      return [`prefix${JSON.stringify(test.prefix)}`];
    case 'range': {
      const { from, to } = test;
      const least = from ? [`${from.isInclusive ? '>=' : '>'}${from.value}`] : [];
      return [...least, ...(to ? [`${to.isInclusive ? '<=' : '<'}${to.value}`] : [])];
    }
    default:
      return [`${test.kind}${JSON.stringify(test.sorted)}`];
  }
}

function listed(kind: 'and' | 'or', parts: readonly string[]): string {
  const sorted = [...new Set(parts)].sort();
  return sorted.length === 1 ? sorted[0] : `${kind}(${sorted.join(',')})`;
}
