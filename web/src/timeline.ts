// The timeline: a row for each device, a bar for each computation, in the colour of its client; the last seconds, live.
//
// Bars are drawn once, onto a canvas that wraps around in time, and each frame copies it to the screen. So a frame costs the bars that are new, not those
// that are shown, and thousands of devices cost no more than few: a computation over consecutive devices is one rectangle.

import { duration, fit } from "./dom";
import type { Bar, GangStore, Program } from "./gangs";
import { clientColor, currentColors } from "./theme";

export interface Row {
  device: number;
  host: string;
  island: string;
}

export interface Found {
  program: string;
  client: number;
  gang: number;
  seconds: number;
  devices: number;
  failed: boolean;
  running: boolean;
  row: Row;
}

const DELAY_US = 600_000; // the screen lags, so that what is reported has arrived
const AHEAD_US = 2_000_000; // of the screen's right edge, on the wrapping canvas
const GUTTER = 92; // for the names of hosts
const AXIS = 16;

export class Timeline {
  readonly canvas: HTMLCanvasElement;
  windowUs = 10e6;
  paused = false;
  private readonly ring = document.createElement("canvas");
  private rows: Row[] = [];
  private rowOf = new Map<number, number>();
  private hosts: Group[] = [];
  private islands: Group[] = [];
  private offset = 0; // the controller's time minus ours, both in microseconds
  private synced = false;
  private pausedAt = 0;
  private cleared = -Infinity; // columns before this one are drawn
  private height = 160;
  private stale = true;

  constructor(private readonly store: GangStore) {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "timeline";
    this.canvas.setAttribute("role", "img");
  }

  setRows(rows: Row[]): void {
    if (rows.length === this.rows.length && rows.every((row, i) => row.device === this.rows[i]!.device && row.host === this.rows[i]!.host)) return;
    this.rows = rows;
    this.rowOf = new Map(rows.map((row, i) => [row.device, i]));
    this.hosts = groups(rows, (row) => row.host, (a, b) => a.island === b.island && a.host === b.host);
    this.islands = groups(rows, (row) => row.island, (a, b) => a.island === b.island);
    this.height = Math.min(420, Math.max(96, rows.length * 18)) + AXIS;
    this.stale = true;
  }

  setWindow(seconds: number): void {
    this.windowUs = seconds * 1e6;
    this.stale = true;
  }

  setPaused(paused: boolean): void {
    if (paused && !this.paused) this.pausedAt = this.now();
    this.paused = paused;
    this.stale = true;
  }

  redraw(): void {
    this.stale = true;
  }

  // The controller's clock, from an answer that was made between two readings of ours.
  sync(now: number, asked: number, heard: number): void {
    const offset = now - ((asked + heard) / 2) * 1000;
    const jump = Math.abs(offset - this.offset) > 1e6;
    this.offset = this.synced && !jump ? this.offset + (offset - this.offset) * 0.1 : offset;
    if (jump) this.stale = true;
    this.synced = true;
  }

  serverNow(): number {
    return performance.now() * 1000 + this.offset;
  }

  private now(): number {
    return this.paused ? this.pausedAt : this.serverNow() - DELAY_US;
  }

  // Draws bars that have just come.
  add(bars: Bar[]): void {
    if (this.stale || this.paused) return;
    this.clearAhead();
    for (const bar of bars) this.paint(bar);
  }

  draw(): void {
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    if (fit(this.canvas, width, this.height)) this.stale = true;
    if (this.stale) this.repaint();
    if (!this.paused) this.clearAhead();
    this.show();
  }

  // -- the wrapping canvas

  private get ratio(): number {
    return window.devicePixelRatio || 1;
  }
  private get plotWidth(): number {
    return Math.max(1, this.canvas.width - Math.round(GUTTER * this.ratio));
  }
  private get plotHeight(): number {
    return Math.max(1, this.canvas.height - Math.round(AXIS * this.ratio));
  }
  private get scale(): number {
    return this.plotWidth / this.windowUs;
  }

  private repaint(): void {
    this.stale = false;
    this.ring.width = this.plotWidth + Math.ceil(AHEAD_US * this.scale);
    this.ring.height = this.plotHeight;
    this.cleared = Math.floor((this.now() + AHEAD_US) * this.scale);
    const oldest = this.now() - this.windowUs;
    for (const bar of this.store.bars) if (bar.end >= oldest) this.paint(bar);
  }

  private clearAhead(): void {
    const until = Math.floor((this.now() + AHEAD_US) * this.scale);
    const context = this.ring.getContext("2d")!;
    for (let from = Math.max(this.cleared, until - this.ring.width); from < until;) {
      const x = from % this.ring.width;
      const w = Math.min(until - from, this.ring.width - x);
      context.clearRect(x, 0, w, this.ring.height);
      from += w;
    }
    this.cleared = Math.max(this.cleared, until);
  }

  private paint(bar: Bar): void {
    const oldest = this.cleared - this.ring.width;
    const from = Math.max(bar.start * this.scale, oldest);
    const to = Math.min(Math.max(bar.end * this.scale, from + 0.5), this.cleared);
    if (to <= from) return;
    const context = this.ring.getContext("2d")!;
    context.fillStyle = clientColor(bar.client);
    // A light edge keeps neighbours apart where there is room for it.
    const edge = to - from > 4 ? 1 : 0;
    this.eachSpan(bar.program, (y, height) => {
      const x = from % this.ring.width;
      const width = to - from - edge;
      context.fillRect(x, y, Math.min(width, this.ring.width - x), height);
      if (x + width > this.ring.width) context.fillRect(0, y, x + width - this.ring.width, height);
    });
    if (!bar.failed) return;
    context.fillStyle = currentColors().bad;
    this.eachSpan(bar.program, (y, height) => context.fillRect(Math.max(0, (to % this.ring.width) - 3), y, 3, height));
  }

  // Calls `draw` for each run of neighbouring rows of the program's devices, with their place in device pixels.
  private eachSpan(program: Program, draw: (y: number, height: number) => void): void {
    const rowHeight = this.plotHeight / Math.max(1, this.rows.length);
    const gap = rowHeight >= 6 * this.ratio ? this.ratio : 0;
    for (const [first, last] of program.devices) {
      for (let device = first; device <= last; ++device) {
        const row = this.rowOf.get(device);
        if (row === undefined) continue;
        let end = row;
        if (gap === 0) while (device < last && this.rowOf.get(device + 1) === end + 1) ++end, ++device;
        draw(row * rowHeight + gap, (end - row + 1) * rowHeight - gap);
      }
    }
  }

  // -- the screen

  private show(): void {
    const context = this.canvas.getContext("2d")!;
    const colors = currentColors();
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const left = this.canvas.width - this.plotWidth;
    const right = Math.round(this.now() * this.scale); // whole pixels are copied, parts of them would be computed
    const from = Math.max(right - this.plotWidth, this.cleared - this.ring.width);
    const sx = ((from % this.ring.width) + this.ring.width) % this.ring.width;
    const shown = right - from;
    const first = Math.min(shown, this.ring.width - sx);
    const x = left + this.plotWidth - shown;
    context.fillStyle = colors.cell;
    context.fillRect(left, 0, this.plotWidth, this.plotHeight);
    if (first > 0) context.drawImage(this.ring, sx, 0, first, this.ring.height, x, 0, first, this.ring.height);
    if (shown > first) context.drawImage(this.ring, 0, 0, shown - first, this.ring.height, x + first, 0, shown - first, this.ring.height);
    this.showUnderway(context, left);
    this.showLines(context, left);
    this.showNames(context, left);
    this.showAxis(context, left);
  }

  private showUnderway(context: CanvasRenderingContext2D, left: number): void {
    const now = this.now();
    const seen = new Set<number>();
    for (const one of this.store.underway) {
      const device = one.program.devices[0]?.[0];
      if (device === undefined || seen.has(device)) continue;
      seen.add(device);
      const since = Math.max(one.granted, this.store.ends.get(device) ?? 0, now - this.windowUs);
      if (since >= now) continue;
      const x = left + this.plotWidth - (now - since) * this.scale;
      context.globalAlpha = 0.55;
      context.fillStyle = clientColor(one.client);
      this.eachSpan(one.program, (y, height) => context.fillRect(x, y, left + this.plotWidth - x, height));
      context.globalAlpha = 1;
    }
  }

  private showLines(context: CanvasRenderingContext2D, left: number): void {
    const rowHeight = this.plotHeight / Math.max(1, this.rows.length);
    context.fillStyle = currentColors().line;
    const smallest = this.hosts.reduce((least, group) => Math.min(least, group.rows), Infinity) * rowHeight;
    if (smallest >= 6) for (const { first } of this.hosts.slice(1)) context.fillRect(left, Math.round(first * rowHeight), this.plotWidth, this.ratio);
    for (const { first } of this.islands.slice(1)) context.fillRect(0, Math.round(first * rowHeight), this.canvas.width, this.ratio);
  }

  // Names of hosts where they have room, else of islands, at the middle of their rows.
  private showNames(context: CanvasRenderingContext2D, left: number): void {
    const rowHeight = this.plotHeight / Math.max(1, this.rows.length);
    const need = 12 * this.ratio;
    const smallest = this.hosts.reduce((least, group) => Math.min(least, group.rows), Infinity) * rowHeight;
    context.fillStyle = currentColors().quiet;
    context.font = `${11 * this.ratio}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    let lowest = -Infinity;
    for (const { first, rows, name } of smallest >= need ? this.hosts : this.islands) {
      const y = (first + rows / 2) * rowHeight;
      if (y - need / 2 < lowest) continue;
      lowest = y + need / 2;
      context.fillText(shorten(name), left - 6 * this.ratio, y);
    }
  }

  private showAxis(context: CanvasRenderingContext2D, left: number): void {
    const seconds = this.windowUs / 1e6;
    const step = [0.2, 0.5, 1, 2, 5, 10].find((one) => seconds / one <= 10) ?? 10;
    const colors = currentColors();
    context.font = `${10 * this.ratio}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    for (let ago = 0; ago <= seconds + 1e-9; ago += step) {
      const x = left + this.plotWidth * (1 - ago / seconds);
      context.fillStyle = colors.line;
      context.fillRect(Math.min(Math.round(x), this.canvas.width - 1), this.plotHeight, this.ratio, 4 * this.ratio);
      context.fillStyle = colors.quiet;
      if (ago > 0 && ago < seconds) context.fillText(`−${ago < 1 ? ago.toFixed(1) : ago} s`, x, this.plotHeight + 10 * this.ratio);
    }
    context.textAlign = "right";
    context.fillText(this.paused ? "paused" : "now", this.canvas.width - 2 * this.ratio, this.plotHeight + 10 * this.ratio);
  }

  // -- the pointer

  // Returns what is drawn at a place of the canvas, in CSS pixels.
  at(x: number, y: number): Found | null {
    const row = this.rows[Math.floor((y * this.ratio) / (this.plotHeight / Math.max(1, this.rows.length)))];
    const left = this.canvas.width - this.plotWidth;
    const column = x * this.ratio - left;
    if (row === undefined || column < 0) return null;
    const now = this.now();
    const time = now - (this.plotWidth - column) / this.scale;
    const slack = 1.5 / this.scale;
    const has = (program: Program) => program.devices.some(([first, last]) => first <= row.device && row.device <= last);
    for (let i = this.store.bars.length - 1; i >= 0; --i) {
      const bar = this.store.bars[i]!;
      if (bar.end < time - 1e6 - slack) break;
      if (bar.start > time + slack || bar.end < time - slack || !has(bar.program)) continue;
      return { ...this.found(bar, row), seconds: (bar.end - bar.start) / 1e6, failed: bar.failed, running: false };
    }
    const running = this.store.underway.find((one) => has(one.program));
    const since = running && Math.max(running.granted, this.store.ends.get(running.program.devices[0]![0]) ?? 0);
    if (running === undefined || since! > time) return null;
    return { ...this.found(running, row), seconds: (now - since!) / 1e6, failed: false, running: true };
  }

  private found(one: { gang: number; client: number; program: Program }, row: Row): Omit<Found, "seconds" | "failed" | "running"> {
    const devices = one.program.devices.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    return { program: one.program.name, client: one.client, gang: one.gang, devices, row };
  }
}

// Rows that stand together and have one name.
interface Group {
  first: number;
  rows: number;
  name: string;
}

function groups(rows: Row[], name: (row: Row) => string, same: (a: Row, b: Row) => boolean): Group[] {
  const found: Group[] = [];
  rows.forEach((row, i) => {
    const before = rows[i - 1];
    if (before !== undefined && same(before, row)) ++found[found.length - 1]!.rows;
    else found.push({ first: i, rows: 1, name: name(row) });
  });
  return found;
}

export function describe(found: Found): string {
  const state = found.failed ? ", failed" : found.running ? ", under way" : "";
  return `${found.program}\nclient ${found.client}, computation ${found.gang}\n${duration(found.seconds)} on ${found.devices} device${found.devices === 1 ? "" : "s"}${state}\n${found.row.host}, device ${found.row.device}`;
}

function shorten(name: string): string {
  return name.length > 15 ? `${name.slice(0, 6)}…${name.slice(-8)}` : name;
}
