import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { limit } from "./limit.ts";

declare global {
  interface Window {
    /** attacked is called by text that became code. */
    attacked: (how: string) => void;
    /** shifts are those of the layout that the user did not cause. */
    shifts: { value: number; of: string[] }[];
  }
}

let browser: Browser | undefined;
const contexts = new Set<BrowserContext>();
let problems: string[] = [];
let allowed: RegExp[] = [];

/** Each browser asks once who is signed in; without a session the reply is 401. Without a GPU, WebGL says what is slow. */
const always = [/status of 401 .*\/api\/session$/, /^console: \[\.WebGL-\w+\]GL Driver Message \(OpenGL, Performance,/];

/** allow lets the pages of this test have errors that match: those that the test causes on purpose. */
export function allow(...patterns: RegExp[]): void {
  allowed.push(...patterns);
}

/** found returns the problems of the pages of this test that were not allowed, and forgets them. */
export function found(): string[] {
  const patterns = [...always, ...allowed];
  const rest = problems.filter((problem) => !patterns.some((pattern) => pattern.test(problem)));
  problems = [];
  allowed = [];
  return rest;
}

export interface Look {
  width?: number;
  height?: number;
  colorScheme?: "light" | "dark";
}

/** context returns a browser of its own: it shares no cookies with others. */
export async function context({ width = 1280, height = 800, colorScheme = "light" }: Look = {}): Promise<BrowserContext> {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
  const made = await browser.newContext({ viewport: { width, height }, colorScheme, locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce" });
  contexts.add(made);
  made.setDefaultTimeout(limit);
  await made.grantPermissions(["clipboard-read", "clipboard-write"]);
  await made.exposeBinding("problem", (_, text: string) => void problems.push(text));
  await made.addInitScript(watch);
  made.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") {
      problems.push(`console: ${message.text()} ${message.location().url}`);
    }
  });
  made.on("weberror", (error) => void problems.push(`uncaught: ${String(error.error().stack ?? error.error())}`));
  made.on("dialog", (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return made;
}

/** watch runs in each page before its own code. */
function watch(): void {
  const { problem } = window as unknown as { problem: (text: string) => void };
  window.attacked = (how) => problem(`text became code: ${how}`);
  document.addEventListener("securitypolicyviolation", (v) => problem(`Content-Security-Policy: ${v.violatedDirective} refuses ${v.blockedURI} ${v.sample}`));
  window.addEventListener("unhandledrejection", (e) => problem(`unhandled rejection: ${String(e.reason)}`));
  window.shifts = [];
  interface Shift extends PerformanceEntry {
    value: number;
    hadRecentInput: boolean;
    sources: { node: Node | null }[];
  }
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as Shift[]) {
      if (!entry.hadRecentInput) {
        window.shifts.push({ value: entry.value, of: entry.sources.map(({ node }) => (node instanceof Element ? node.outerHTML : String(node?.textContent)).slice(0, 80)) });
      }
    }
  }).observe({ type: "layout-shift", buffered: true });
}

/** open opens a URL in a browser of its own. */
export async function open(url: string, look: Look = {}): Promise<Page> {
  const page = await (await context(look)).newPage();
  await page.goto(url);
  return page;
}

/** pages are those that are open. */
export function pages(): Page[] {
  return [...contexts].flatMap((c) => c.pages());
}

/** closeContexts closes all pages. */
export async function closeContexts(): Promise<void> {
  await Promise.all([...contexts].map((c) => c.close()));
  contexts.clear();
}

/** closeBrowser ends Chromium. */
export async function closeBrowser(): Promise<void> {
  await browser?.close();
}
