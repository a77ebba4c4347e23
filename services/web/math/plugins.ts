import remarkMath from 'remark-math';
import type { PluggableList } from 'unified';

/** What reads formulas in Markdown: they stand between two dollars, since one alone is money more often. */
export const mathPlugins: PluggableList = [[remarkMath, { singleDollarTextMath: false }]];
