import { expect, test } from "vitest";
import { serious } from "./lib/axe.ts";
import { openLocal, section } from "./lib/pages.ts";
import { Up } from "./lib/coppice.ts";
import { park } from "./lib/realm.ts";
import { until } from "./lib/limit.ts";

test("parked work is found from the overview, retried, and dropped", async () => {
  const up = await Up.start();
  await park(up);
  const page = await openLocal(up);
  await section(page, "Stuck").getByText("the error of the first: the bucket is locked.").waitFor();
  await section(page, "Stuck").getByRole("link", { name: "Show parked work" }).click();
  const piece = page.getByRole("checkbox", { name: /finalizer example\.com\/bucket/ });
  await piece.waitFor();
  await page.getByText("the bucket is locked").waitFor();
  expect(await serious(page)).toEqual([]);
  await piece.check();
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByText(/^1 piece of work was queued again\./).waitFor();
  await until("it has failed again", async () => (await piece.count()) === 1 && !(await piece.isChecked()));
  await piece.check();
  await page.getByRole("button", { name: "Drop…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drop", exact: true }).click();
  await page.getByText("1 piece of work was dropped.").waitFor();
  await page.getByText("No work is parked.").waitFor();
});
