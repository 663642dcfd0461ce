// Programs of many nodes as graphs: a column for each step of the longest way from an argument, an arrow for each edge. layersOf is pure.

import { h, setText } from "./dom";

export type GraphNode = { kind: string; name: string; at: string; devices: number; hosts: string[]; inputs: number[] };
export type Program = { client: number; id: number; name: string; num_nodes: number; nodes: GraphNode[] };
export type ProgramReport = { programs: Program[]; more: number };

const ASK_MS = 3000;
const WIDE = 150; // of a node
const HIGH = 34;
const APART = 46; // from column to column
const BELOW = 10;
const HOSTS = 3; // names that fit
const SVG = "http://www.w3.org/2000/svg";

// For each node the number of its column: one more than the greatest of its inputs. Inputs come before the nodes that take them.
export function layersOf(nodes: GraphNode[]): number[] {
  const layers: number[] = [];
  nodes.forEach((node, i) => layers.push(node.inputs.reduce((most, input) => (input < i ? Math.max(most, layers[input]! + 1) : most), 0)));
  return layers;
}

export function titleOf(node: GraphNode): string {
  return node.name || node.kind;
}

// "h0, h1, h2 and 5 more".
export function hostsOf(node: GraphNode): string {
  const more = node.hosts.length - HOSTS;
  return node.hosts.slice(0, HOSTS).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function svg(tag: string, attributes: Record<string, string | number>, ...children: (Node | string)[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

function draw(program: Program): SVGElement {
  const layers = layersOf(program.nodes);
  const rows = new Map<number, number>();
  const places = layers.map((layer) => {
    const row = rows.get(layer) ?? 0;
    rows.set(layer, row + 1);
    return { x: layer * (WIDE + APART), y: row * (HIGH + BELOW) };
  });
  const width = Math.max(1, ...layers.map((layer) => layer + 1)) * (WIDE + APART) - APART;
  const height = Math.max(1, ...rows.values()) * (HIGH + BELOW);
  const edges = program.nodes.flatMap((node, to) =>
    node.inputs.filter((from) => from < to).map((from) => {
      const [a, b] = [places[from]!, places[to]!];
      const [x0, y0, x1, y1] = [a.x + WIDE, a.y + HIGH / 2, b.x, b.y + HIGH / 2];
      return svg("path", { class: "edge", d: `M${x0} ${y0}C${x0 + APART / 2} ${y0} ${x1 - APART / 2} ${y1} ${x1} ${y1}` });
    }),
  );
  const nodes = program.nodes.map((node, i) => {
    const { x, y } = places[i]!;
    const about = `${node.kind}${node.name ? ` ${node.name}` : ""}\n${node.devices} devices on ${node.hosts.join(", ") || "no host"}${node.at ? `\n${node.at}` : ""}`;
    return svg(
      "g",
      { class: `node ${node.kind}`, transform: `translate(${x} ${y})` },
      svg("title", {}, about),
      svg("rect", { width: WIDE, height: HIGH, rx: 3 }),
      svg("text", { x: 7, y: 14 }, titleOf(node).slice(0, 24)),
      svg("text", { x: 7, y: 27, class: "where" }, `${node.devices} on ${hostsOf(node)}`.slice(0, 28)),
    );
  });
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${program.name}: ${program.num_nodes} nodes` }, ...edges, ...nodes);
}

export class Graphs {
  readonly element = h("div", { class: "graphs" });
  readonly tools: HTMLElement[];
  private readonly chosen = h("select", { "aria-label": "program" });
  private readonly toggle = h("button", { type: "button", "aria-pressed": "false" }, "show");
  private readonly said = h("p", { class: "quiet" });
  private readonly canvas = h("div", { class: "graph" });
  private report: ProgramReport = { programs: [], more: 0 };
  private shown = "";
  private open = false;
  private round = 0;

  constructor(private readonly ask: (question: string) => Promise<ProgramReport>, private readonly failed: (error: unknown) => void) {
    this.tools = [this.chosen, this.toggle];
    this.element.append(this.said, this.canvas);
    this.element.hidden = true;
    this.toggle.addEventListener("click", () => {
      this.open = !this.open;
      this.element.hidden = !this.open;
      this.toggle.setAttribute("aria-pressed", String(this.open));
      if (this.open) void this.poll();
    });
    this.chosen.addEventListener("input", () => this.draw());
  }

  private async poll(): Promise<void> {
    const round = ++this.round;
    while (this.open && round === this.round) {
      try {
        this.take(await this.ask("programs"));
      } catch (error) {
        setText(this.said, error instanceof Error ? error.message : String(error));
        this.failed(error);
      }
      await new Promise((resolve) => setTimeout(resolve, ASK_MS));
      while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    }
  }

  private take(report: ProgramReport): void {
    this.report = report;
    const keys = report.programs.map((one) => `${one.client}:${one.id}`);
    if (keys.join() !== [...this.chosen.options].map((option) => option.value).join()) {
      const before = this.chosen.value;
      this.chosen.replaceChildren(...report.programs.map((one, i) => h("option", { value: keys[i]! }, `${one.name} of client ${one.client}`)));
      if (keys.includes(before)) this.chosen.value = before;
    }
    this.draw();
  }

  private draw(): void {
    const program = this.report.programs.find((one) => `${one.client}:${one.id}` === this.chosen.value);
    const left = program === undefined ? 0 : program.num_nodes - program.nodes.length;
    setText(this.said, program === undefined ? "no client has loaded a program of many nodes (pw.program)" : left > 0 ? `the first ${program.nodes.length} of ${program.num_nodes} nodes` : "");
    const key = JSON.stringify(program ?? null);
    if (key === this.shown) return;
    this.shown = key;
    this.canvas.replaceChildren(...(program === undefined ? [] : [draw(program)]));
  }
}
