import { z } from 'zod';

/** The MIME type of a figure's data, which an output carries beside `image/png`. */
export const chartMime = 'application/vnd.codebox.chart+json';
/** The MIME type of the values of a table by column, which an output carries beside `text/html` where CODEBOX_TABLES asks for it. */
export const tableMime = 'application/vnd.codebox.table+json';

/**
 * One value along an axis, by the `type` of that axis: a number, an RFC 3339 time in UTC, or the name of a category (a
 * number for a position between categories). Null for a value that is not finite.
 */
const value = z.union([z.number(), z.string(), z.null()]);
const values = z.array(value);
const numbers = z.array(z.number().nullable());
/** `#rrggbb`; null when nothing is filled or when each point has its own colour. */
const color = z
  .string()
  .regex(/^#[0-9a-f]{6}$/)
  .nullable();
const label = z.string().nullable();
/** `vertical`: values run along y and positions along x. `horizontal`: values run along x and positions along y. */
const orientation = z.enum(['vertical', 'horizontal']);
/** matplotlib's code of a marker, `custom` for a user-defined shape, null for none (or the round one of `scatter`). */
const marker = z.string().nullable();

const look = { label, color, opacity: z.number().optional() };

export const chartAxisSchema = z
  .object({
    label,
    scale: z.string().meta({ description: 'linear, log, symlog, logit, asinh or the name of another scale.' }),
    type: z.enum(['number', 'category', 'date']),
    range: z.tuple([value, value]).meta({
      description:
        'The visible range, from the start of the axis to its end: an inverted axis starts with the larger value.',
    }),
    ticks: z
      .array(z.object({ value: z.number(), label: z.string() }))
      .optional()
      .meta({ description: 'Ticks with labels; for an axis of categories, all categories.' }),
  })
  .meta({ id: 'ChartAxis' });

/** The series of one plotting call. Arrays have one entry per point unless described otherwise. */
export const chartSeriesSchema = z
  .discriminatedUnion('type', [
    z.object({
      type: z.literal('line'),
      ...look,
      x: values,
      y: values,
      line: z.enum(['solid', 'dashed', 'dashdot', 'dotted']),
      width: z.number().meta({ description: 'Width in points.' }),
      marker,
      step: z.enum(['pre', 'mid', 'post']).optional(),
    }),
    z
      .object({
        type: z.literal('scatter'),
        ...look,
        x: values,
        y: values,
        marker,
        size: z.number().optional(),
        sizes: numbers.optional(),
        colors: z.array(color).optional(),
        values: numbers.optional().meta({ description: 'The values that the colours represent.' }),
      })
      .meta({ description: 'Points without a line; sizes in square points.' }),
    z
      .object({
        type: z.literal('bar'),
        ...look,
        orientation,
        position: values.meta({
          description: 'The middle of each bar; on an axis of categories, the nearest category.',
        }),
        offset: numbers
          .optional()
          .meta({ description: 'The distance of the middle from that category; left out when it is 0.' }),
        value: numbers.meta({ description: 'The length of each bar; it ends at base + value.' }),
        base: values,
        width: numbers.meta({
          description: 'In units of the axis (days on an axis of dates); neighbouring categories are 1 apart.',
        }),
        low: values.optional().meta({ description: 'Where error bars start; high: where they end.' }),
        high: values.optional(),
        colors: z.array(color).optional(),
      })
      .meta({ description: 'Grouped bars differ in offset, stacked ones in base.' }),
    z.object({
      type: z.literal('histogram'),
      ...look,
      orientation,
      edges: values.meta({ description: 'The edges of the bins: one more than values.' }),
      value: values,
      base: values,
    }),
    z
      .object({
        type: z.literal('pie'),
        radius: z.number(),
        innerRadius: z.number().meta({ description: 'The inner radius of a ring; 0 for a pie.' }),
        labels: z.array(label),
        values: numbers.meta({ description: 'The values as plotted; for wedges drawn one by one, their fractions.' }),
        fractions: numbers.meta({ description: 'Shares of the circle.' }),
        colors: z.array(color),
      })
      .meta({ description: 'All wedges of one ring, in order.' }),
    z
      .object({
        type: z.literal('box'),
        ...look,
        orientation,
        position: value,
        offset: z.number().optional(),
        low: value.meta({ description: 'The end of the lower whisker; high: of the upper one.' }),
        q1: value,
        median: value,
        q3: value,
        high: value,
        mean: value.meta({ description: 'Null when the plot does not show it.' }),
        outliers: values,
      })
      .meta({ description: 'One box of a box plot.' }),
    z.object({
      type: z.literal('errorbar'),
      ...look,
      marker,
      line: z.boolean().meta({ description: 'Whether a line joins the points.' }),
      x: values,
      y: values,
      xLow: values.optional(),
      xHigh: values.optional(),
      yLow: values.optional(),
      yHigh: values.optional(),
    }),
    z
      .object({ type: z.literal('area'), ...look, orientation, position: values, from: values, to: values })
      .meta({ description: 'One region of fill_between, or one body of a violin plot.' }),
    z
      .object({ type: z.literal('segments'), ...look, x0: values, y0: values, x1: values, y1: values })
      .meta({ description: 'Straight lines that are not joined, such as those of hlines and vlines.' }),
    z
      .object({ type: z.literal('rule'), ...look, orientation, value })
      .meta({ description: 'A line across everything: axhline is horizontal, axvline vertical.' }),
    z
      .object({ type: z.literal('span'), ...look, orientation, from: value, to: value })
      .meta({ description: 'A band across everything: axvspan is vertical, from and to are along x.' }),
    z
      .object({
        type: z.literal('image'),
        label,
        rows: z.int(),
        columns: z.int(),
        extent: numbers.length(4).meta({ description: 'Left, right, bottom and top.' }),
      })
      .meta({ description: 'An image or a heat map; its pixels are only in the PNG.' }),
    z
      .object({ type: z.literal('unknown'), artist: z.string(), count: z.int() })
      .meta({ description: "An artist that only the PNG shows, by matplotlib's name." }),
  ])
  .meta({ id: 'ChartSeries' });

export type ChartSeries = z.infer<typeof chartSeriesSchema>;

export const chartAxesSchema = z
  .object({
    title: label,
    bounds: z
      .tuple([z.number(), z.number(), z.number(), z.number()])
      .meta({ description: 'Left, bottom, width and height as shares of the figure.' }),
    projection: z.string().meta({ description: 'rectilinear; polar, where x is the angle; or another one.' }),
    x: chartAxisSchema,
    y: chartAxisSchema,
    legend: z.boolean(),
    bars: z.enum(['single', 'grouped', 'stacked', 'overlaid']).optional(),
    twinOf: z
      .int()
      .optional()
      .meta({ description: 'The index of the axes that these axes overlay with a y axis (or x axis) of their own.' }),
    shares: z.enum(['x', 'y']).optional().meta({ description: 'The axis that the two have in common.' }),
    series: z.array(chartSeriesSchema),
  })
  .meta({ id: 'ChartAxes' });

export type ChartAxes = z.infer<typeof chartAxesSchema>;

/**
 * A matplotlib figure as data, enough to redraw it: every `Axes` with what was plotted there, in order. Texts, arrows
 * and colour bars are left out. The data comes from code in a box, so a reader has to check it with this schema. It
 * takes at most 2 MiB of JSON: beyond that, points are left out evenly.
 */
export const chartSchema = z
  .object({
    version: z.literal(1),
    title: label,
    width: z.int().meta({ description: 'In pixels, as height.' }),
    height: z.int(),
    axes: z.array(chartAxesSchema),
    truncated: z
      .object({ points: z.int(), series: z.int() })
      .optional()
      .meta({ description: 'How many points and whole series were left out.' }),
  })
  .meta({ id: 'Chart' });

export type Chart = z.infer<typeof chartSchema>;
