import type { SyntaxNode, Tree } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';

/** A series that an expression reads, with the labels that it selects. */
interface Selected {
  series: string;
  labels: string[];
}

export interface Parsed {
  selected: Selected[];
  /** Labels by which it aggregates or matches. */
  grouping: string[];
}

/** Parses the series that a PromQL expression reads. Throws an Error that marks the position of a syntax error. */
export const parsePromql = (expression: string): Parsed => {
  const tree: Tree = parser.parse(expression);
  const parsed: Parsed = { selected: [], grouping: [] };
  const text = ({ from, to }: { from: number; to: number }) => expression.slice(from, to);
  const named = (node: SyntaxNode, name: string): string[] => {
    const found: string[] = [];
    node.cursor().iterate((inner) => {
      if (inner.name === name) found.push(text(inner));
    });
    return found;
  };
  tree.iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`${expression}\n${' '.repeat(node.from)}^ is not PromQL`);
      if (node.name === 'VectorSelector')
        parsed.selected.push({
          series: named(node.node, 'Identifier')[0] ?? '',
          labels: named(node.node, 'LabelName'),
        });
      if (node.name === 'GroupingLabels') parsed.grouping.push(...named(node.node, 'LabelName'));
    },
  });
  return parsed;
};
