// The page: asks the controller, and draws. The status once a second, the computations four times, the timeline each frame.

import { ask, hasSession, login, logout, NotLoggedIn, takeTicket } from "./api";
import { Charts } from "./charts";
import { DeviceMap } from "./devicemap";
import { duration, h, setClass, setText } from "./dom";
import { type GangReport, GangStore } from "./gangs";
import { Graphs, type ProgramReport } from "./graph";
import { type LogReport, Logs } from "./logs";
import { clientTable, Events, Figures, Hangs, hostTable, Owners, panel, programTable, Waits, warnings } from "./panels";
import { compare, type Report, type View } from "./status";
import { onThemeChange, startTheme, toggleTheme } from "./theme";
import { describe, type Row, Timeline } from "./timeline";

const STATUS_MS = 1000;
const STATUS_MOST_MS = 1500;
const GANGS_MS = 250;
const MAP_MS = 200; // load is that of two seconds: it changes slowly
const WINDOWS = [1, 5, 10, 30]; // seconds
const KEYS: [string, string][] = [
  ["space", "hold the timeline, let it go on"],
  ["1 2 3 4", "timeline of 1, 5, 10, 30 seconds"],
  ["↑ ↓", "choose a host; the timeline shows its devices"],
  ["esc", "all hosts"],
  ["m", "the map shows memory, or load"],
  ["t", "light, or dark"],
  ["?", "these keys"],
];

class Page {
  private readonly store = new GangStore();
  private readonly timeline = new Timeline(this.store);
  private readonly map = new DeviceMap();
  private readonly hosts = hostTable();
  private readonly clients = clientTable();
  private readonly programs = programTable();
  private readonly owners = new Owners();
  private readonly hangs = new Hangs();
  private readonly waits = new Waits();
  private readonly events = new Events();
  private readonly figures = new Figures();
  private readonly charts = new Charts();
  private readonly graphs = new Graphs((question) => ask<ProgramReport>(question), (error) => error instanceof NotLoggedIn && this.failed(error));
  private readonly logs = new Logs((question) => ask<LogReport>(question), (error) => error instanceof NotLoggedIn && this.failed(error));
  private readonly alerts = h("div", { class: "alerts", role: "status" });
  private readonly state = h("span", { class: "state" }, "connecting");
  private readonly about = h("span", { class: "about" });
  private readonly tip = h("div", { class: "tip", role: "tooltip" });
  private readonly help = h("dialog", { class: "help" });
  private readonly windows = WINDOWS.map((seconds) => h("button", { type: "button" }, `${seconds} s`));
  private readonly hold = h("button", { type: "button", title: "space" }, "hold");
  private readonly shows = h("button", { type: "button", title: "m" }, "memory");
  private readonly chosen = h("span", { class: "chosen" });
  private readonly missed = h("span", { class: "missed warn" });
  private before: Report | null = null;
  private view: View | null = null;
  private load = new Float32Array(0);
  private mapDrawn = -Infinity;
  private pointer: { over: HTMLCanvasElement; x: number; y: number; px: number; py: number } | null = null;
  private alertsShown = "";
  private live = true;

  constructor(private readonly root: HTMLElement, private readonly leave: () => void) {
    this.build();
    this.listen();
    void this.pollStatus();
    void this.pollGangs();
    requestAnimationFrame(() => this.frame());
  }

  // -- asking

  private async pollStatus(): Promise<void> {
    while (this.live) {
      const began = performance.now();
      try {
        const report = await ask<Report>("status");
        this.take(report);
        this.connected(null);
      } catch (error) {
        this.failed(error);
      }
      // A large cluster, or a busy controller, is asked less often.
      const took = performance.now() - began;
      await this.until(began + Math.min(STATUS_MOST_MS, Math.max(STATUS_MS, 20 * took)));
    }
  }

  private async pollGangs(): Promise<void> {
    while (this.live) {
      const began = performance.now();
      try {
        const report = await ask<GangReport>(`gangs?after=${this.store.last}`);
        this.timeline.sync(report.now, began, performance.now());
        this.timeline.add(this.store.add(report));
      } catch (error) {
        if (error instanceof NotLoggedIn) this.failed(error);
      }
      await this.until(began + GANGS_MS);
    }
  }

  // Waits; where nobody sees the page, for its next sight.
  private async until(time: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, time - performance.now())));
    while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }

  private failed(error: unknown): void {
    if (!this.live) return;
    if (!(error instanceof NotLoggedIn)) return this.connected(error instanceof Error ? error.message : String(error));
    this.live = false;
    this.leave();
  }

  private connected(problem: string | null): void {
    setText(this.state, problem === null ? (this.view?.report.state === "formed" ? "live" : "forming") : "no answer");
    setClass(this.state, problem === null ? (this.view?.report.state === "formed" ? "state good" : "state warn") : "state bad");
    this.state.title = problem ?? "the controller answers";
  }

  private take(report: Report): void {
    const view = compare(report, this.before);
    this.before = report;
    this.view = view;
    document.title = `${report.hangs.length > 0 ? `(${report.hangs.length}) ` : ""}Pathways`;
    setText(this.about, `${report.version} · ${report.platform || "no platform"} · ${report.policy} · up ${duration(report.uptime_seconds)}`);
    this.figures.set(view);
    this.hosts.set(view.hosts);
    this.clients.set(view.clients);
    this.programs.set(this.store.summary(this.timeline.serverNow(), 10));
    this.owners.set(view);
    this.hangs.set(view);
    this.waits.set(view);
    this.events.set(view, Date.now());
    this.charts.add(report.uptime_seconds, [view.load, view.used, view.queue, view.grantedPerSecond]);
    this.map.setView(view);
    const most = report.devices.reduce((highest, device) => Math.max(highest, device.id), -1);
    if (this.load.length !== most + 1) this.load = new Float32Array(most + 1);
    this.setRows();
    this.warn(warnings(view));
  }

  private warn(lines: string[]): void {
    const key = lines.join("\n");
    if (key === this.alertsShown) return;
    this.alertsShown = key;
    this.alerts.replaceChildren(...lines.map((line) => h("p", {}, line)));
  }

  private setRows(): void {
    if (this.view === null) return;
    const names = new Map(this.view.hosts.map((one) => [one.host.id, one]));
    if (this.map.selected !== null && !names.has(this.map.selected)) this.choose(null);
    const chosen = this.map.selected;
    const rows: Row[] = this.view.report.devices
      .filter((device) => chosen === null || device.host === chosen)
      .map((device) => ({ device: device.id, host: names.get(device.host)?.host.name ?? "", island: names.get(device.host)?.island ?? "" }));
    this.timeline.setRows(rows);
    setText(this.chosen, chosen === null ? "" : `${names.get(chosen)?.host.name} only · esc: all`);
  }

  private choose(host: number | null): void {
    this.map.selected = host;
    this.hosts.select(host);
    this.mapDrawn = -Infinity;
    this.setRows();
  }

  // -- drawing

  private frame(): void {
    if (!this.live) return;
    this.timeline.draw();
    setText(this.missed, this.timeline.serverNow() - this.store.missedAt < this.timeline.windowUs ? "too many computations: some are not shown" : "");
    if (performance.now() - this.mapDrawn >= MAP_MS) {
      this.mapDrawn = performance.now();
      this.map.draw(this.deviceLoad());
    }
    this.showTip();
    requestAnimationFrame(() => this.frame());
  }

  // Null where not all computations are known: then the hosts' own counts are shown.
  private deviceLoad(): Float32Array | null {
    const now = this.timeline.serverNow();
    if (now - this.store.missedAt < 3e6) return null;
    this.store.load(now - GANGS_MS * 1000, this.load);
    return this.load;
  }

  private showTip(): void {
    let text = "";
    if (this.pointer?.over === this.timeline.canvas) {
      const found = this.timeline.at(this.pointer.x, this.pointer.y);
      if (found !== null) text = describe(found);
    } else if (this.pointer?.over === this.map.canvas) {
      const found = this.map.at(this.pointer.x, this.pointer.y);
      if (found !== null) text = this.map.describe(found, this.load);
    }
    this.tip.hidden = text === "";
    if (text === "" || this.pointer === null) return;
    setText(this.tip, text);
    const x = Math.min(this.pointer.px + 14, window.innerWidth - this.tip.offsetWidth - 8);
    const y = Math.min(this.pointer.py + 16, window.innerHeight - this.tip.offsetHeight - 8);
    this.tip.style.transform = `translate(${x}px, ${y}px)`;
  }

  // -- building

  private build(): void {
    const docs = h("a", { href: "./docs/operators.txt", target: "_blank", rel: "noopener" }, "docs");
    const light = h("button", { type: "button", title: "t" }, "light / dark");
    light.addEventListener("click", toggleTheme);
    const keys = h("button", { type: "button", title: "?" }, "keys");
    keys.addEventListener("click", () => this.help.showModal());
    const out = h("button", { type: "button" }, "log out");
    out.addEventListener("click", () => void logout().then(() => this.failed(new NotLoggedIn())));
    this.help.append(h("h2", {}, "Keys"), h("dl", {}, ...KEYS.flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])));
    this.windows.forEach((button, i) => button.addEventListener("click", () => this.setWindow(i)));
    this.hold.addEventListener("click", () => this.setPaused(!this.timeline.paused));
    this.shows.addEventListener("click", () => this.toggleMap());
    this.timeline.canvas.setAttribute("aria-label", "a row for each device, a bar for each computation; the table of programs has the same in numbers");
    this.map.canvas.setAttribute("aria-label", "a cell for each device; the table of hosts has the same in numbers");
    this.tip.hidden = true;
    this.root.replaceChildren(
      h("header", { class: "top" }, h("h1", {}, "Pathways"), this.state, this.about, h("nav", {}, docs, light, keys, out), this.figures.element),
      this.alerts,
      h(
        "main",
        {},
        panel("Timeline", this.timeline.canvas, this.missed, this.chosen, this.hold, ...this.windows),
        h(
          "div",
          { class: "columns" },
          h("div", {}, panel("Devices", this.map.canvas, this.shows), panel("Hosts", this.hosts.element), panel("Memory by owner", this.owners.element), panel("Hangs", this.hangs.element), panel("Waiting", this.waits.element)),
          h("div", {}, panel("Last minutes", this.charts.element), panel("Clients", this.clients.element), panel("Programs of the last ten seconds", this.programs.element), panel("Events", this.events.element)),
        ),
        panel("Programs of many nodes", this.graphs.element, ...this.graphs.tools),
        panel("Logs", this.logs.element, ...this.logs.tools),
      ),
      this.tip,
      this.help,
    );
    this.setWindow(2);
  }

  private setWindow(index: number): void {
    this.timeline.setWindow(WINDOWS[index]!);
    this.windows.forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
  }

  private setPaused(paused: boolean): void {
    this.timeline.setPaused(paused);
    this.hold.setAttribute("aria-pressed", String(paused));
  }

  private toggleMap(): void {
    this.map.shows = this.map.shows === "load" ? "memory" : "load";
    this.shows.setAttribute("aria-pressed", String(this.map.shows === "memory"));
    this.mapDrawn = -Infinity;
  }

  private listen(): void {
    onThemeChange(() => {
      this.timeline.redraw();
      this.mapDrawn = -Infinity;
    });
    this.hosts.onSelect = (host) => {
      this.map.selected = host;
      this.mapDrawn = -Infinity;
      this.setRows();
    };
    for (const canvas of [this.timeline.canvas, this.map.canvas]) {
      canvas.addEventListener("pointermove", (event) => {
        this.pointer = { over: canvas, x: event.offsetX, y: event.offsetY, px: event.clientX, py: event.clientY };
      });
      canvas.addEventListener("pointerleave", () => (this.pointer = null));
    }
    this.map.canvas.addEventListener("click", (event) => {
      const host = this.map.at(event.offsetX, event.offsetY)?.host.host.id ?? null;
      this.choose(host === this.map.selected ? null : host);
    });
    document.addEventListener("keydown", (event) => this.onKey(event));
  }

  private onKey(event: KeyboardEvent): void {
    if (!this.live || event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
    const act: Record<string, () => void> = {
      " ": () => this.setPaused(!this.timeline.paused),
      m: () => this.toggleMap(),
      t: toggleTheme,
      "?": () => this.help.showModal(),
      Escape: () => this.choose(null),
      ArrowDown: () => this.hosts.move(1),
      ArrowUp: () => this.hosts.move(-1),
    };
    WINDOWS.forEach((_, i) => (act[String(i + 1)] = () => this.setWindow(i)));
    const what = act[event.key];
    if (what === undefined || (event.key === " " && event.target instanceof HTMLButtonElement)) return;
    event.preventDefault();
    what();
  }
}

function askForToken(root: HTMLElement, problem: string): void {
  const field = h("input", { type: "password", autocomplete: "off", spellcheck: "false", "aria-label": "token", placeholder: "pw-…" });
  const said = h("p", { class: "bad", role: "alert" }, problem);
  const form = h(
    "form",
    { class: "login" },
    h("h1", {}, "Pathways"),
    h("p", {}, "Open the address that ", h("code", {}, "pathways page"), " prints on the controller's machine: it logs in, once. Or show an operator's token, or the secret in the cluster's page.token:"),
    h("div", {}, field, h("button", { type: "submit" }, "log in")),
    said,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    login(field.value.trim()).then(
      () => start(root),
      (error: unknown) => setText(said, error instanceof NotLoggedIn ? "This opens nothing: it is wrong, was used before, or has ended." : String(error)),
    );
  });
  root.replaceChildren(form);
  field.focus();
}

function start(root: HTMLElement): void {
  new Page(root, () => askForToken(root, ""));
}

async function main(): Promise<void> {
  startTheme();
  addEventListener("hashchange", () => location.reload()); // another ticket, in the same tab
  const root = document.getElementById("root")!;
  const ticket = takeTicket();
  let problem = "";
  if (ticket !== null) {
    await login(ticket).catch((error: unknown) => {
      problem = error instanceof NotLoggedIn ? "This address was used before, or is older than ten minutes." : String(error);
    });
  }
  if (hasSession()) start(root);
  else askForToken(root, problem);
}

void main();
