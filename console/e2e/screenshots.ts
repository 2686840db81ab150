import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, test } from "vitest";
import { context, type Look } from "./lib/browser.ts";
import { Console, Up } from "./lib/coppice.ts";
import { base } from "./lib/pages.ts";
import { fill, park, views, type View } from "./lib/realm.ts";

const directory = fileURLToPath(new URL("../../docs/images/console/", import.meta.url));

/** Pages take it for so much later, in ms, that times differ from "now". */
const later = 27 * 60_000;

let up: Up;
let passwords: Console;
let parked: Up;
beforeAll(async () => {
  up = await Up.start();
  await fill(up);
  passwords = await Console.start(up);
  parked = await Up.start();
  await park(parked);
  await mkdir(directory, { recursive: true });
});

/** picture writes NAME-COLOURS.png, with a palette. */
async function picture(view: View, name: string, look: Look): Promise<void> {
  const page = await (await context(look)).newPage();
  await page.clock.setFixedTime(Date.now() + later);
  const of = view.name === "parked" ? parked : up;
  await page.goto(view.signedOut ? base(passwords.url) + view.path : base(of.console) + view.path + new URL(of.console).hash);
  await (view.name === "parked" ? page.getByText("the bucket is locked").waitFor() : view.seen(page));
  const path = `${directory}${name}-${look.colorScheme ?? "light"}.png`;
  await page.screenshot({ path });
  await promisify(execFile)("pngquant", ["--force", "--ext", ".png", "--speed", "1", "--strip", "64", path]);
}

const shown = views.filter(({ name }) => ["overview", "object", "blocked", "secret", "removed", "deletion-plan", "deletion-progress", "graph", "events", "parked", "realms", "search", "help", "sign-in"].includes(name));

test.each(shown.flatMap((view) => (["light", "dark"] as const).map((colorScheme) => ({ name: view.name, view, colorScheme }))))("$name, $colorScheme", async ({ name, view, colorScheme }) => {
  await picture(view, name, { colorScheme });
  if (name === "overview") {
    await picture(view, "narrow", { colorScheme, width: 380 });
  }
});
