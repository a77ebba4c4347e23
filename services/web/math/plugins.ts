import remarkMath from 'remark-math';
import type { PluggableList } from 'unified';

/** Plugins that parse formulas in Markdown: between double dollars, since a single dollar is usually money. */
export const mathPlugins: PluggableList = [[remarkMath, { singleDollarTextMath: false }]];
