// Making elements, and texts of numbers. No text of the cluster is ever parsed as HTML.

type Child = Node | string | null;

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Record<string, string> = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element: Element, name: string): void {
  if (element.className !== name) element.className = name;
}

export function bytes(n: number): string {
  if (n < 1024) return `${Math.round(n)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = -1;
  do {
    n /= 1024;
    ++unit;
  } while (n >= 1000 && unit < units.length - 1);
  return `${n < 10 ? n.toFixed(2) : n < 100 ? n.toFixed(1) : n.toFixed(0)} ${units[unit]}`;
}

export function count(n: number): string {
  if (n < 1000) return n < 10 && !Number.isInteger(n) ? n.toFixed(1) : n.toFixed(0);
  if (n < 10_000) return `${(n / 1000).toFixed(1)}k`;
  return n < 1e6 ? `${(n / 1000).toFixed(0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

export function percent(share: number | null): string {
  return share === null ? "–" : `${Math.round(share * 100)} %`;
}

export function duration(seconds: number): string {
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.01 ? 2 : 1)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

// A canvas for this element's width and a height in CSS pixels, sharp on every screen. Returns whether its size changed.
export function fit(canvas: HTMLCanvasElement, width: number, height: number): boolean {
  const ratio = window.devicePixelRatio || 1;
  const [w, hgt] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width === w && canvas.height === hgt) return false;
  canvas.width = w;
  canvas.height = hgt;
  canvas.style.height = `${height}px`;
  return true;
}
