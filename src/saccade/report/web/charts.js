/* The drawing module of the report and the playground: line charts, bars, heat maps and timelines in plain SVG.
 *
 * These files belong together and load in this order:
 *   chart_scales.js  chart_frame.js  chart_save.js  chart_line.js  chart_bars.js  chart_heat.js  chart_timeline.js  charts.js
 * with theme.css for the colours. Nothing here asks the network for anything, and data only ever becomes text.
 *
 * Charts.line(container, spec)  {title, caption?, height?, x: {label, log?, min?, max?, places?: [{at, label}]}, y: {label, min?, max?, log?},
 *                                series: [{name, x: [], y: [] (null is missing), low?: [], high?: [], a band around it, colour?,
 *                                style?: "line" | "dashes" | "dots" | "points" | "rings", quiet?: not in the legend,
 *                                tone?: number of its colour and marker (its place if not given; null is ink), shade?: 0 to 1}],
 *                                levels?: [{y, label}], marks?: [{x, label}], bands?: [{from, to, label}]}
 * Charts.bars(container, spec)  {title, caption?, height?, x: {label}, y: {label, min?, max?}, labels: [names], ghostName?,
 *                                legend? = true, stacked?, levels?: [{y, label}], roles?: [{name, tone}] what the tones of bars mean,
 *                                groups: [{name, values: [], colour?, tone?, shade?, tones?: [{tone, opacity?} | null] of each bar,
 *                                ghost?: theory's values, drawn as an outline}]}
 * Charts.heat(container, spec)  {title, caption?, height?, x: {label, ticks: []}, y: {label, ticks: []}, rows, columns,
 *                                values (row by row; NaN is missing), min, max, scale: "sequential" | "diverging", unit,
 *                                numbers?: the value is written in each cell, key? = true,
 *                                outline?: theory's values (null: none), the rim of each cell outside a dashed line; outlineName? ("": not said)}
 * Charts.timeline(container, spec)  {title, caption?, height?, x: {label, min, max}, states: [names], steps: [], unseen: [[from, to]], end: where the last one ends,
 *                                rows: [{name, group, first?: of its group, pieces: [[from step, place in states or -1]],
 *                                still: step | null, takes: [steps]}], legend? = true}
 *
 * Each gives a handle: {element, update(part of a spec), cursor(x or null), toSVG(), toCSV(), destroy()}.
 * Charts.saveMenu(handle, filename) adds buttons that save SVG, PNG and CSV.
 */
const Charts = Object.freeze({
  line: ChartLine.create,
  bars: ChartBars.create,
  heat: ChartHeat.create,
  timeline: ChartTimeline.create,
  saveMenu: ChartSave.saveMenu,
  /** A number as the charts write it. */
  format: ChartScales.format,
  /** Colour of a fraction from 0 to 1 on the sequential map, as CSS. */
  sequential: ChartScales.sequential,
});
