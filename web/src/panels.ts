// The page's panels but those on canvases: figures at the top, hosts, clients, memory by owner, what hangs, what waits, events.

import { bytes, count, duration, h, percent, setClass, setText } from "./dom";
import type { ProgramView } from "./gangs";
import type { ClientView, HostView, Report, View } from "./status";
import { isShort, machineFaults, waits } from "./status";
import { Table } from "./table";
import { clientVariable } from "./theme";

export function panel(title: string, content: Node, ...tools: Node[]): HTMLElement {
  return h("section", { class: "panel", "aria-label": title }, h("header", {}, h("h2", {}, title), h("span", { class: "tools" }, ...tools)), content);
}

// "jax client at ipv4:10.0.0.7:40112 on head" of ada: "ada on head". All of it is told by the pointer.
function who({ client: { user, description } }: ClientView): string {
  const machine = /^jax client at \S+ on (\S+)$/.exec(description)?.[1];
  return user ? `${user} on ${machine ?? description}` : (machine ?? description);
}

export function hostTable(): Table<HostView> {
  return new Table<HostView>(
    "Hosts",
    [
      { title: "Host", width: "minmax(110px, 2fr)", text: (one) => one.host.name, by: (one) => one.host.name },
      { title: "Island", width: "minmax(70px, 1fr)", text: (one) => one.island, by: (one) => one.island },
      { title: "State", width: "60px", text: (one) => one.host.state, mark: (one) => (one.host.state === "up" ? "quiet" : one.host.state === "busy" ? "warn" : "bad"), by: (one) => one.host.state },
      { title: "Load", width: "64px", right: true, hint: "the part of its devices' time that computations took", text: (one) => percent(one.load), share: (one) => one.load, by: (one) => one.load ?? -1 },
      { title: "Memory", width: "84px", right: true, hint: "arrays on its devices", text: (one) => bytes(one.used), share: (one) => (one.limit > 0 ? one.used / one.limit : null), by: (one) => one.used },
      { title: "In flight", width: "62px", right: true, hint: "commands sent and not reported complete", text: (one) => count(one.host.ops_in_flight), by: (one) => one.host.ops_in_flight },
      { title: "Parked", width: "54px", right: true, hint: "commands that wait there for arrays, memory or their turn", text: (one) => count(one.parked), by: (one) => one.parked },
      { title: "Traffic", width: "84px", right: true, hint: "between the controller and the host", text: (one) => `${bytes(one.bytesPerSecond)}/s`, by: (one) => one.bytesPerSecond },
    ],
    (one) => one.host.id,
    12,
    "no host has joined",
  );
}

export function clientTable(): Table<ClientView> {
  return new Table<ClientView>(
    "Clients",
    [
      { title: "Id", width: "44px", text: (one) => String(one.client.id), swatch: (one) => clientVariable(one.client.id), by: (one) => one.client.id },
      { title: "Client", width: "minmax(100px, 1fr)", text: who, tip: (one) => one.client.description, by: who },
      { title: "Weight", width: "46px", right: true, text: (one) => String(one.client.weight), by: (one) => one.client.weight },
      { title: "Entitled", width: "50px", right: true, hint: "to so much of the device time, by its weight, among the clients with work", text: (one) => percent(one.entitled), by: (one) => one.entitled ?? -1 },
      { title: "Got", width: "58px", right: true, hint: "of the device time that all clients got", text: (one) => percent(one.got), share: (one) => one.got, mark: (one) => (isShort(one) ? "warn" : ""), by: (one) => one.got ?? -1 },
      { title: "Waiting", width: "48px", right: true, hint: "computations in the queue", text: (one) => count(one.client.waiting), by: (one) => one.client.waiting },
      { title: "Running", width: "50px", right: true, text: (one) => count(one.client.running), by: (one) => one.client.running },
      { title: "Done / s", width: "52px", right: true, text: (one) => count(one.perSecond), by: (one) => one.perSecond },
      { title: "On devices", width: "76px", right: true, hint: "bytes of its arrays on devices", text: (one) => bytes(one.deviceBytes), by: (one) => one.deviceBytes },
    ],
    (one) => one.client.id,
    8,
    "no program is connected",
  );
}

export function programTable(): Table<ProgramView> {
  return new Table<ProgramView>(
    "Programs",
    [
      { title: "Program", width: "minmax(130px, 1fr)", text: (one) => one.name, swatch: (one) => clientVariable(one.client), by: (one) => one.name },
      { title: "Client", width: "44px", right: true, text: (one) => String(one.client), by: (one) => one.client },
      { title: "Devices", width: "50px", right: true, text: (one) => count(one.devices), by: (one) => one.devices },
      { title: "Per s", width: "50px", right: true, text: (one) => count(one.perSecond), by: (one) => one.perSecond },
      { title: "Mean", width: "64px", right: true, hint: "for so long a computation kept its devices busy", text: (one) => duration(one.mean), by: (one) => one.mean },
      { title: "Device time", width: "76px", right: true, hint: "its part of the device time of all computations", text: (one) => percent(one.share), share: (one) => one.share, by: (one) => one.share },
    ],
    (one) => one.key,
    6,
    "nothing was computed in the last ten seconds",
  );
}

// Memory by owner: one bar of all devices' memory.
export class Owners {
  readonly element: HTMLElement;
  private readonly bar = h("div", { class: "stack", role: "img" });
  private readonly legend = h("div", { class: "legend" });
  private shown = "";

  constructor() {
    this.element = h("div", { class: "owners" }, this.bar, this.legend);
  }

  set(view: View): void {
    const owners = view.clients.filter((one) => one.deviceBytes > 0).sort((a, b) => b.deviceBytes - a.deviceBytes);
    const parts = owners.slice(0, 9).map((one) => ({ name: `client ${one.client.id}`, color: clientVariable(one.client.id), size: one.deviceBytes }));
    const rest = owners.slice(9).reduce((sum, one) => sum + one.deviceBytes, 0) + view.unowned;
    if (rest > 0) parts.push({ name: "others", color: "var(--quiet)", size: rest });
    const free = view.limit - view.used;
    const whole = view.limit > 0 ? Math.max(view.limit, view.used) : Math.max(1, view.used);
    const key = JSON.stringify([parts, whole]);
    if (key === this.shown) return;
    this.shown = key;
    this.bar.replaceChildren(...parts.map((part) => {
      const piece = h("i", { title: `${part.name}: ${bytes(part.size)}` });
      piece.style.width = `${(100 * part.size) / whole}%`;
      piece.style.background = part.color;
      return piece;
    }));
    this.bar.setAttribute("aria-label", parts.map((part) => `${part.name}: ${bytes(part.size)}`).join(", "));
    const entries = parts.map((part) => {
      const swatch = h("i");
      swatch.style.background = part.color;
      return h("span", {}, swatch, `${part.name} `, h("b", {}, bytes(part.size)));
    });
    if (view.limit > 0) entries.push(h("span", {}, h("i", { class: "free" }), "free ", h("b", {}, bytes(Math.max(0, free)))));
    else if (parts.length === 0) entries.push(h("span", {}, "no arrays"));
    this.legend.replaceChildren(...entries);
  }
}

export class Hangs {
  readonly element = h("div", { class: "hangs" });
  private shown = "";
  private readonly opened = new Set<string>(); // the stacks that the reader has opened

  private stack(key: string, { host, process, text }: { host: string; process: string; text: string }): HTMLElement {
    const details = h("details", {}, h("summary", {}, `threads of ${process}`, h("em", {}, ` as ${host} tells`)), h("pre", {}, text));
    details.open = this.opened.has(key);
    details.addEventListener("toggle", () => (details.open ? this.opened.add(key) : this.opened.delete(key)));
    return details;
  }

  set(view: View): void {
    const key = JSON.stringify(view.report.hangs);
    if (key === this.shown) return;
    this.shown = key;
    if (view.report.hangs.length === 0) return this.element.replaceChildren(h("p", { class: "nothing" }, "nothing hangs"));
    this.element.replaceChildren(
      ...view.report.hangs.map((one) => {
        const swatch = h("i", { class: "swatch" });
        swatch.style.background = clientVariable(one.client);
        const predicted = one.predicted_seconds === undefined ? "first run" : `${duration(one.predicted_seconds)} predicted`;
        return h(
          "div",
          { class: "hang" },
          h("p", {}, swatch, h("b", {}, one.program || "(unnamed)"), ` computation ${one.computation} of client ${one.client}`, h("em", {}, ` ${duration(one.seconds)}, ${predicted}`)),
          h("ul", {}, ...one.hosts.map((host) => h("li", {}, h("span", {}, host.name), host.state))),
          ...one.stacks.map((stack) => this.stack(`${one.client} ${one.computation} ${stack.host} ${stack.process}`, stack)),
        );
      }),
    );
  }
}

// The queues, with position and reason.
export class Waits {
  readonly element = h("div", { class: "waits" });
  private shown = "";

  set(view: View): void {
    const all = waits(view.report);
    const key = JSON.stringify(all);
    if (key === this.shown) return;
    this.shown = key;
    if (all.length === 0) return this.element.replaceChildren(h("p", { class: "nothing" }, "nothing waits in a queue"));
    const shown = all.slice(0, 20).map((one) => h("li", {}, h("span", {}, `${one.position}. ${one.who}`), one.why));
    if (all.length > shown.length) shown.push(h("li", {}, `and ${all.length - shown.length} more`));
    this.element.replaceChildren(h("div", { class: "hang" }, h("ul", {}, ...shown)));
  }
}

export class Events {
  readonly element = h("ol", { class: "events", tabindex: "0" });
  private shown = "";

  set(view: View, now: number): void {
    const events = [...view.report.events].reverse();
    const first = events[0];
    const key = `${events.length} ${first?.kind} ${first?.text} ${first ? Math.round((now - first.seconds_ago * 1000) / 2000) : 0}`;
    if (key === this.shown) return;
    this.shown = key;
    if (events.length === 0) return this.element.replaceChildren(h("li", { class: "nothing" }, "nothing has happened"));
    this.element.replaceChildren(
      ...events.map((one) => {
        const at = new Date(now - one.seconds_ago * 1000);
        const bad = one.kind === "host lost" || one.kind === "hang";
        return h("li", {}, h("time", { datetime: at.toISOString() }, at.toLocaleTimeString([], { hour12: false })), h("b", { class: bad ? "bad" : "" }, one.kind), h("span", { title: one.text }, one.text));
      }),
    );
  }
}

// The figures at the top.
export class Figures {
  readonly element = h("div", { class: "figures" });
  private readonly values = new Map<string, HTMLElement>();

  constructor() {
    for (const name of ["Hosts", "Devices", "Load", "Memory", "Clients", "Granted / s", "Running", "Queue", "Hangs"]) {
      const value = h("b", {}, "–");
      this.values.set(name, value);
      this.element.append(h("span", {}, name, value));
    }
  }

  set(view: View): void {
    const report = view.report;
    const put = (name: string, text: string, mark = "") => {
      setText(this.values.get(name)!, text);
      setClass(this.values.get(name)!, mark);
    };
    const expected = Math.max(report.expected_hosts, report.joined_hosts);
    const well = view.hosts.every((one) => one.host.state === "up");
    put("Hosts", report.joined_hosts === expected ? String(expected) : `${report.joined_hosts} of ${expected}`, report.joined_hosts < expected ? "bad" : well ? "" : "warn");
    put("Devices", String(report.devices.length));
    put("Load", percent(view.load));
    put("Memory", view.limit > 0 ? `${bytes(view.used)} / ${bytes(view.limit)}` : bytes(view.used));
    put("Clients", String(report.clients.length));
    put("Granted / s", count(view.grantedPerSecond));
    put("Running", count(view.running));
    put("Queue", count(view.queue));
    put("Hangs", String(report.hangs.length), report.hangs.length > 0 ? "bad" : "");
  }
}

function names(hosts: string[]): string {
  return hosts.slice(0, 5).join(", ") + (hosts.length > 5 ? ` and ${hosts.length - 5} more` : "");
}

// Names the hosts, as far as the last events tell them.
function lost(report: Report): string {
  const gone = new Set<string>();
  for (const { kind, text } of report.events) {
    const name = /^host '([^']+)'/.exec(text)?.[1];
    if (name !== undefined && kind === "host lost") gone.add(name);
    if (name !== undefined && kind === "host joined") gone.delete(name);
  }
  const missing = report.expected_hosts - report.joined_hosts;
  const which = gone.size > 0 ? `: ${names([...gone])}` : "";
  return `${missing} of ${report.expected_hosts} hosts ${missing === 1 ? "is" : "are"} lost${which}. What needs ${missing === 1 ? "it" : "them"} fails until a host takes the seat; 'pathways worker --join' adds one.`;
}

// What is wrong, in one line each, above everything; nothing if all is well.
export function warnings(view: View): string[] {
  const found: string[] = [];
  const report = view.report;
  if (report.state === "forming") found.push(`The cluster waits for hosts: ${report.joined_hosts} of ${report.expected_hosts} have joined.`);
  else if (report.joined_hosts < report.expected_hosts) found.push(lost(report));
  const list = (state: string) => view.hosts.filter((one) => one.host.state === state).map((one) => one.host.name);
  if (list("silent").length > 0) found.push(`Silent: ${names(list("silent"))}. Nothing has been heard from there.`);
  if (list("away").length > 0) found.push(`Away: ${names(list("away"))}. The connection is broken; what is there waits for it.`);
  if (list("busy").length > 0) found.push(`Busy: ${names(list("busy"))}. The connection answers, the worker does not.`);
  const faults = machineFaults(report);
  for (const [fault, where] of faults.slice(0, 5)) found.push(`${where}: ${fault}. 'pathways doctor' says what to do.`);
  if (faults.length > 5) found.push(`${faults.length - 5} more faults of machines: 'pathways doctor' lists them.`);
  for (const one of report.hangs.slice(0, 3)) found.push(`Computation ${one.computation} of client ${one.client} (${one.program || "unnamed"}) hangs on ${names(one.hosts.map((host) => host.name))}.`);
  return found;
}
