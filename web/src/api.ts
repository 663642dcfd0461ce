// Questions to the controller. The session is kept where only pages of this address, port included, can read it, and only until the tab is closed.

const KEY = "pathways-session";

export class NotLoggedIn extends Error {}

async function get(path: string, shown: string | null): Promise<unknown> {
  const headers: Record<string, string> = shown === null ? {} : { Authorization: `Bearer ${shown}` };
  const answer = await fetch(path, { headers, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" });
  if (answer.status === 401) throw new NotLoggedIn();
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the controller answers ${answer.status}`);
  return answer.json();
}

export async function login(shown: string): Promise<void> {
  const { session } = (await get("/api/login", shown)) as { session: string };
  sessionStorage.setItem(KEY, session);
}

export function hasSession(): boolean {
  return sessionStorage.getItem(KEY) !== null;
}

export async function logout(): Promise<void> {
  const session = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  if (session !== null) await get("/api/logout", session).catch(() => undefined);
}

export async function ask<T>(question: string): Promise<T> {
  try {
    return (await get(`/api/${question}`, sessionStorage.getItem(KEY))) as T;
  } catch (error) {
    if (error instanceof NotLoggedIn) sessionStorage.removeItem(KEY);
    throw error;
  }
}

// Takes the ticket out of the address, and out of the history.
export function takeTicket(): string | null {
  const ticket = location.hash.slice(1);
  if (ticket === "") return null;
  history.replaceState(null, "", location.pathname);
  return ticket;
}
