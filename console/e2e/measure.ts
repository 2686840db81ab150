import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { test } from "vitest";
import { context } from "./lib/browser.ts";
import { Up } from "./lib/coppice.ts";
import { object, type Manifest } from "./lib/objects.ts";
import { base } from "./lib/pages.ts";

/**
 * Measures graphs of realms with real services in headless Chromium, which draws without a GPU, and the layout of the server. The figures
 * go to the file MEASURE_INTO, test/bench/graph.json without it. MEASURE_DIVIDE divides the sizes, to try the script.
 */
const divide = Number(process.env.MEASURE_DIVIDE ?? "1");
const into = process.env.MEASURE_INTO ?? fileURLToPath(new URL("../../test/bench/graph.json", import.meta.url));
const repository = fileURLToPath(new URL("../..", import.meta.url));

/** Figures of a realm; times are in ms, memory in MiB. */
interface Measured {
  objects: number;
  shown: number;
  /** From the request of the page until its first nodes are on the screen, when the console has no mirror of the realm yet, and when it has. */
  firstPaint: number;
  firstPaintMirrored: number;
  /** While panning: the time of scripts in a frame, and the time from frame to frame. */
  panScript: number;
  panScriptP95: number;
  panFrame: number;
  /** The same, close enough that names are shown. */
  nearScript: number;
  nearScriptP95: number;
  nearFrame: number;
  /** From the start of a command that changes one object until the page shows it, with the time of the command; median and longest. */
  update: number;
  updateLongest: number;
  /** The heap of scripts after a garbage collection, and all memory of the process of the page. */
  heap: number;
  process: number;
}

function median(values: number[], at = 0.5): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))] ?? Number.NaN;
}

/** families returns Deployments, each with a ReplicaSet and three Pods, in 20 namespaces. */
function families(from: number, to: number): Manifest[] {
  return Array.from({ length: to - from }, (_, n) => {
    const i = from + n;
    const namespace = `team-${i % 20}`;
    const root = object("Deployment", `service-${i}`, { namespace });
    const middle = object("ReplicaSet", `service-${i}-7d4c9`, { namespace, owners: [root] });
    const pods = [0, 1, 2].map((pod) => object("Pod", `service-${i}-7d4c9-${pod}`, { namespace, owners: [middle] }));
    return [root, middle, ...pods];
  }).flat();
}

/** script runs in each page before its own code: it takes the times of frames. */
function script(): void {
  const frames: { script: number; at: number }[] = [];
  Object.assign(window, { frames_: frames });
  const request = window.requestAnimationFrame.bind(window);
  let last = -1;
  window.requestAnimationFrame = (callback) =>
    request((at) => {
      const began = performance.now();
      callback(at);
      const took = performance.now() - began;
      const frame = frames.at(-1);
      if (frame !== undefined && last === at) {
        frame.script += took;
      } else {
        frames.push({ script: took, at });
      }
      last = at;
    });
}

/** pan drags the picture, and returns the frames. */
async function pan(page: Page): Promise<{ script: number[]; between: number[] }> {
  const box = await page.locator("[data-painted]").boundingBox();
  if (box === null) {
    throw new Error("the graph has no place on the page");
  }
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.evaluate(() => ((window as unknown as { frames_: unknown[] }).frames_.length = 0));
  for (let i = 0; i < 60; i++) {
    await page.mouse.move(x + 120 * Math.sin(i / 6), y + 60 * Math.cos(i / 6));
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  }
  const frames = await page.evaluate(() => (window as unknown as { frames_: { script: number; at: number }[] }).frames_.slice());
  await page.mouse.up();
  return { script: frames.map((f) => f.script), between: frames.slice(1).map((f, i) => f.at - (frames[i]?.at ?? 0)) };
}

/** painted opens the graph, and returns the time until its first nodes are on the screen. */
async function painted(page: Page, url: string): Promise<number> {
  await page.goto(url);
  await page.locator("[data-painted]").waitFor({ timeout: 120_000 });
  return page.evaluate(
    () => new Promise<number>((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())))),
  );
}

async function measure(objects: number): Promise<Measured> {
  const up = await Up.start();
  const batch = 5_000;
  for (let from = 0; from < objects / 5; from += batch) {
    await up.put(...families(from, Math.min(from + batch, objects / 5)));
  }
  const browser = await context({ width: 1280, height: 800 });
  await browser.addInitScript(script);
  const page = await browser.newPage();
  const url = `${base(up.console)}/r/default/graph`;
  const firstPaint = await painted(page, url + new URL(up.console).hash);
  const firstPaintMirrored = await painted(page, url);
  const region = page.locator("[data-painted]");
  const shown = Number(await region.getAttribute("data-shown"));
  const far = await pan(page);
  for (let i = 0; i < 12; i++) {
    await page.getByRole("button", { name: "Zoom in" }).click();
  }
  const near = await pan(page);
  await page.getByRole("button", { name: /^(Fit|Show everything)/ }).click();

  const updates: number[] = [];
  for (let i = 0; i < 10; i++) {
    const began = Date.now();
    const seen = page.evaluate(
      (before) =>
        new Promise<number>((resolve) => {
          const look = () => (document.querySelector("[data-painted]")?.getAttribute("data-revision") === before ? requestAnimationFrame(look) : resolve(Date.now()));
          look();
        }),
      await region.getAttribute("data-revision"),
    );
    await up.run(["protect", `pod/service-${i}-7d4c9-0`, "-n", `team-${i % 20}`, "--reason", "a measurement"]);
    updates.push((await seen) - began);
  }

  const cdp = await browser.newCDPSession(page);
  await cdp.send("HeapProfiler.enable");
  await cdp.send("HeapProfiler.collectGarbage");
  const { usedSize } = await cdp.send("Runtime.getHeapUsage");
  const root = await browser.browser()?.newBrowserCDPSession();
  const processes = (await root?.send("SystemInfo.getProcessInfo"))?.processInfo ?? [];
  const resident = await Promise.all(processes.filter((p) => p.type === "renderer").map((p) => residentOf(p.id)));
  await browser.close();
  return {
    objects, shown, firstPaint, firstPaintMirrored,
    panScript: median(far.script), panScriptP95: median(far.script, 0.95), panFrame: median(far.between),
    nearScript: median(near.script), nearScriptP95: median(near.script, 0.95), nearFrame: median(near.between),
    update: median(updates), updateLongest: Math.max(...updates),
    heap: usedSize / 2 ** 20, process: Math.max(...resident),
  };
}

/** residentOf returns the MiB of a process that no other one shares, with its part of what they share. */
async function residentOf(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
  return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1]) / 1024;
}

/** layout runs the benchmark of the server. */
async function layout(): Promise<{ objects: number; first: number; again: number; bytes: number }[]> {
  const args = ["test", "./cmd/coppice/internal/console", "-run", "^$", "-bench", "BenchmarkGraph", "-benchtime", "20x"];
  const { stdout } = await promisify(execFile)("go", args, { cwd: repository, env: { CGO_ENABLED: "0", ...process.env } });
  const rows = new Map<number, { objects: number; first: number; again: number; bytes: number }>();
  for (const [, objects, first, ns, bytes] of stdout.matchAll(/objects=(\d+)\/first=(\w+)\S*\s+\d+\s+(\d+) ns\/op\s+([\d.]+) bytes/g)) {
    const row = rows.get(Number(objects)) ?? { objects: Number(objects), first: 0, again: 0, bytes: 0 };
    if (first === "true") {
      row.first = Number(ns) / 1e6;
      row.bytes = Number(bytes);
    } else {
      row.again = Number(ns) / 1e6;
    }
    rows.set(row.objects, row);
  }
  return [...rows.values()];
}

test("graphs", async () => {
  const graphs = [await measure(100_000 / divide), await measure(1_000_000 / divide)];
  await writeFile(into, JSON.stringify({ layout: await layout(), graphs }, undefined, 2) + "\n");
});
