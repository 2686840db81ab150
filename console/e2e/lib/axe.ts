import axe, { type AxeResults } from "axe-core";
import type { Page } from "playwright-core";

/** serious returns what axe-core finds on a page that is serious or critical. */
export async function serious(page: Page): Promise<string[]> {
  // Its source is run by the debugger, which the Content-Security-Policy does not concern.
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => (window as unknown as { axe: { run: () => Promise<AxeResults> } }).axe.run());
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, help, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html.slice(0, 200)}: ${failureSummary ?? ""}`));
}
