// Light and dark: what the system prefers, or what the reader has chosen. Colours for canvases are read from the style sheet.

const KEY = "pathways-theme";
const CLIENT_COLORS = 10;

export interface Colors {
  text: string;
  quiet: string;
  line: string;
  cell: string;
  load: string;
  memory: string;
  bad: string;
  warn: string;
  clients: string[];
}

const listeners: (() => void)[] = [];
let colors: Colors | null = null;

export function currentColors(): Colors {
  if (colors !== null) return colors;
  // A probe, because the style sheet's values have a form for light and one for dark.
  const probe = document.body.appendChild(document.createElement("i"));
  const of = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const clients = Array.from({ length: CLIENT_COLORS }, (_, i) => of(`client-${i}`));
  colors = { text: of("text"), quiet: of("quiet"), line: of("line"), cell: of("cell"), load: of("load"), memory: of("memory"), bad: of("bad"), warn: of("warn"), clients };
  probe.remove();
  return colors;
}

export function clientColor(client: number): string {
  const all = currentColors().clients;
  return all[client % all.length]!;
}

// The same for elements, which follow the theme by themselves.
export function clientVariable(client: number): string {
  return `var(--client-${client % CLIENT_COLORS})`;
}

export function onThemeChange(listener: () => void): void {
  listeners.push(listener);
}

function changed(): void {
  colors = null;
  for (const listener of listeners) listener();
}

function isDark(): boolean {
  return (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
}

export function startTheme(): void {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

export function toggleTheme(): void {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(KEY, theme);
  changed();
}
