// Plots of the last minutes, by uPlot: what the page has seen since it was opened.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytes, count, h, setText } from "./dom";
import { currentColors, onThemeChange } from "./theme";

const KEPT = 300; // looks, one a second

interface Line {
  title: string;
  color: "load" | "memory" | "warn" | "text";
  text: (value: number) => string;
  most?: number; // of the scale; none: of the data
}

const LINES: Line[] = [
  { title: "Load", color: "load", text: (value) => `${Math.round(value * 100)} %`, most: 1 },
  { title: "Device memory", color: "memory", text: bytes },
  { title: "Queue", color: "warn", text: count },
  { title: "Granted / s", color: "text", text: count },
];

class Chart {
  readonly element: HTMLElement;
  private readonly value = h("b");
  private plot: uPlot | null = null;
  private readonly holder = h("div", { class: "plot" });

  constructor(private readonly line: Line) {
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, h("span", {}, line.title), this.value), this.holder);
  }

  show(times: number[], values: (number | null)[]): void {
    const latest = values[values.length - 1] ?? null;
    setText(this.value, latest === null ? "–" : this.line.text(latest));
    const width = this.holder.clientWidth;
    if (width === 0) return;
    if (this.plot === null) this.plot = this.make(width);
    if (this.plot.width !== width) this.plot.setSize({ width, height: 44 });
    this.plot.setData([times, values]);
  }

  restyle(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private make(width: number): uPlot {
    const color = currentColors()[this.line.color];
    const most = this.line.most;
    return new uPlot(
      {
        width,
        height: 44,
        padding: [2, 0, 2, 0],
        legend: { show: false },
        cursor: { show: false },
        axes: [{ show: false }, { show: false }],
        scales: {
          x: { time: false, range: (_, min, max) => [max - Math.min(KEPT, Math.max(60, max - min)), max] },
          y: { range: (_, __, max) => [0, most ?? Math.max(1, (max ?? 1) * 1.1)] },
        },
        series: [{}, { stroke: color, width: 1.25, fill: `color-mix(in srgb, ${color} 14%, transparent)`, points: { show: false }, spanGaps: false }],
      },
      [[], []],
      this.holder,
    );
  }
}

export class Charts {
  readonly element: HTMLElement;
  private readonly charts = LINES.map((line) => new Chart(line));
  private readonly times: number[] = [];
  private readonly values: (number | null)[][] = LINES.map(() => []);

  constructor() {
    this.element = h("div", { class: "charts" }, ...this.charts.map((one) => one.element));
    onThemeChange(() => {
      this.charts.forEach((one) => one.restyle());
      this.show();
    });
  }

  // `time` in seconds; the values in the order load, memory, queue, grants.
  add(time: number, values: (number | null)[]): void {
    if (this.times.length > 0 && time <= this.times[this.times.length - 1]!) this.times.length = 0; // another controller
    if (this.times.length === 0) this.values.forEach((one) => (one.length = 0));
    this.times.push(time);
    values.forEach((value, i) => this.values[i]!.push(value));
    if (this.times.length > KEPT) {
      this.times.shift();
      this.values.forEach((one) => one.shift());
    }
    this.show();
  }

  private show(): void {
    this.charts.forEach((chart, i) => chart.show(this.times, this.values[i]!));
  }
}
