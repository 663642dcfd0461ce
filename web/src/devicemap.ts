// The map of devices: a cell for each, in blocks of their hosts, on one canvas. A cell shows load or memory; a host that does not answer is marked.

import { bytes, fit, percent } from "./dom";
import type { Device } from "./status";
import { currentColors } from "./theme";
import type { HostView, View } from "./status";

export type Shows = "load" | "memory";

interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
  host: HostView;
  devices: Device[];
}

const MOST_HEIGHT = 232;
const LABEL = 16;
const MOST_CELL = 22;

export class DeviceMap {
  readonly canvas: HTMLCanvasElement;
  shows: Shows = "load";
  selected: number | null = null; // a host's id
  private view: View | null = null;
  private islands: { name: string; hosts: HostView[] }[] = [];
  private devicesOf = new Map<number, Device[]>();
  private places: Place[] = [];
  private labels: { text: string; y: number }[] = [];
  private cell = 12;
  private height = 40;
  private laidOut = "";
  private mostMemory = 1;

  constructor() {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "devicemap";
    this.canvas.setAttribute("role", "img");
  }

  setView(view: View): void {
    this.view = view;
    const byIsland = new Map<string, HostView[]>();
    for (const host of view.hosts) {
      const list = byIsland.get(host.island);
      if (list) list.push(host);
      else byIsland.set(host.island, [host]);
    }
    this.islands = [...byIsland].map(([name, hosts]) => ({ name, hosts }));
    this.devicesOf = new Map();
    this.mostMemory = 1;
    for (const device of view.report.devices) {
      const list = this.devicesOf.get(device.host);
      if (list) list.push(device);
      else this.devicesOf.set(device.host, [device]);
      this.mostMemory = Math.max(this.mostMemory, device.memory?.used_bytes ?? 0);
    }
    this.laidOut = "";
  }

  // `load` is indexed by device; null: only that of whole hosts is known.
  draw(load: Float32Array | null): void {
    const width = this.canvas.clientWidth;
    if (this.view === null || width === 0) return;
    if (this.laidOut !== `${width}`) this.layOut(width);
    fit(this.canvas, width, this.height);
    const context = this.canvas.getContext("2d")!;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, this.height);
    const colors = currentColors();
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = colors.quiet;
    for (const { text, y } of this.labels) context.fillText(text, 0, y);
    for (const place of this.places) this.drawHost(context, place, load);
  }

  at(x: number, y: number): { host: HostView; device: Device | null } | null {
    const place = this.places.find((one) => x >= one.x && x < one.x + one.width && y >= one.y && y < one.y + one.height);
    if (place === undefined) return null;
    const columns = this.columns(place.devices.length);
    const index = Math.floor((y - place.y) / this.cell) * columns + Math.floor((x - place.x) / this.cell);
    return { host: place.host, device: place.devices[index] ?? null };
  }

  describe(found: { host: HostView; device: Device | null }, load: Float32Array | null): string {
    const { host, device } = found;
    const lines = [`${host.host.name} of ${host.island}: ${host.host.state}`];
    if (device !== null) {
      const memory = device.memory;
      lines.push(`device ${device.id}, ${device.kind}`);
      lines.push(`load ${percent(load?.[device.id] ?? host.load)}`);
      if (memory) lines.push(`memory ${bytes(memory.used_bytes)}${memory.limit_bytes > 0 ? ` of ${bytes(memory.limit_bytes)}` : ""}, at most ${bytes(memory.peak_bytes)}`);
    }
    return lines.join("\n");
  }

  // -- layout: the largest cells with which all hosts fit into the height

  private columns(devices: number): number {
    return devices <= 4 ? devices : Math.ceil(Math.sqrt(devices));
  }

  private layOut(width: number): void {
    this.laidOut = `${width}`;
    for (this.cell = MOST_CELL; this.cell > 4; --this.cell) if (this.place(width) <= MOST_HEIGHT) break;
    this.height = Math.max(24, this.place(width));
  }

  // Returns the height that it takes.
  private place(width: number): number {
    const gap = this.cell >= 8 ? 4 : 2;
    this.places = [];
    this.labels = [];
    let y = 0;
    for (const island of this.islands) {
      this.labels.push({ text: `${island.name} · ${island.hosts.length} host${island.hosts.length === 1 ? "" : "s"}`, y: y + LABEL / 2 });
      y += LABEL;
      let x = 0;
      let rowHeight = 0;
      for (const host of island.hosts) {
        const devices = this.devicesOf.get(host.host.id) ?? [];
        const columns = Math.max(1, this.columns(devices.length));
        const [w, hgt] = [columns * this.cell, Math.max(1, Math.ceil(devices.length / columns)) * this.cell];
        if (x > 0 && x + w > width) {
          x = 0;
          y += rowHeight + gap;
          rowHeight = 0;
        }
        this.places.push({ x, y, width: w, height: hgt, host, devices });
        x += w + gap;
        rowHeight = Math.max(rowHeight, hgt);
      }
      y += rowHeight + 8;
    }
    return y;
  }

  private drawHost(context: CanvasRenderingContext2D, place: Place, load: Float32Array | null): void {
    const colors = currentColors();
    const columns = Math.max(1, this.columns(place.devices.length));
    const side = this.cell - 1;
    place.devices.forEach((device, i) => {
      const x = place.x + (i % columns) * this.cell;
      const y = place.y + Math.floor(i / columns) * this.cell;
      context.fillStyle = colors.cell;
      context.fillRect(x, y, side, side);
      context.globalAlpha = this.strength(device, place.host, load);
      context.fillStyle = this.shows === "load" ? colors.load : colors.memory;
      context.fillRect(x, y, side, side);
      context.globalAlpha = 1;
    });
    const state = place.host.host.state;
    const mark = place.host.host.id === this.selected ? colors.text : state === "up" ? null : state === "busy" ? colors.warn : colors.bad;
    if (mark === null) return;
    context.strokeStyle = mark;
    context.lineWidth = 1.5;
    context.strokeRect(place.x - 1.25, place.y - 1.25, place.width + 1.5, place.height + 1.5);
  }

  private strength(device: Device, host: HostView, load: Float32Array | null): number {
    if (this.shows === "load") return Math.min(1, load?.[device.id] ?? host.load ?? 0);
    const memory = device.memory;
    if (memory === undefined) return 0;
    return Math.min(1, memory.used_bytes / (memory.limit_bytes > 0 ? memory.limit_bytes : this.mostMemory));
  }
}
