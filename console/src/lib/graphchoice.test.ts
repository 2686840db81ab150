import { expect, test } from "vitest";
import { type GraphChoice, graphAskOf, graphChoiceOf, graphQuery, toggled, withShown } from "./graphchoice.ts";
import { graphPath, routeOf } from "./paths.ts";

test("a URL leads back to the choice it was built of", () => {
  const names = ["shop", "a/b", "a?b#c", "50%", "%2F", "a b", "größe", "<script>", "a&at=1", "a,b", "a+b", "-", "ns:shop"];
  for (const name of names) {
    const choice: GraphChoice = { namespace: name, labels: `app=${name}`, root: name, open: [name, "ns:media"], shut: ["kind:pods:shop"], show: [name], at: name };
    const url = new URL(graphPath(name, choice), "http://console");
    expect(routeOf(url.pathname, url.search)).toEqual({ view: "graph", realm: name });
    expect(graphChoiceOf(url.search)).toEqual(choice);
  }
  expect(graphPath("default")).toBe("/r/default/graph");
  expect(graphQuery({ namespace: "", open: [], labels: "app=web,tier=front", shut: ["ns:shop"] })).toBe("?labels=app%3Dweb,tier%3Dfront&shut=ns:shop");
});

test("what repeats in a URL is asked for once, and the selection is not asked for", () => {
  const choice = graphChoiceOf("?open=a&open=a&open=&at=b&namespace=");
  expect(choice).toEqual({ open: ["a"], at: "b" });
  expect(graphAskOf(choice)).toEqual({ open: ["a"] });
});

test("opening and closing are against each other", () => {
  const opened = toggled({ shut: ["a", "b"], show: ["x"] }, "a", true);
  expect(opened).toEqual({ open: ["a"], shut: ["b"], show: ["x"] });
  expect(toggled(opened, "a", false, ["x"])).toEqual({ open: [], shut: ["b", "a"], show: [] });
});

test("a URL has no more than the server accepts", () => {
  let choice: GraphChoice = {};
  for (let i = 0; i < 300; i++) {
    choice = withShown(toggled(choice, `k${i}`, i % 3 === 0), `u${i}`);
  }
  expect((choice.open?.length ?? 0) + (choice.shut?.length ?? 0)).toBe(200);
  expect(choice.shut?.at(-1)).toBe("k299");
  expect(choice.show).toHaveLength(20);
  expect(choice.show?.at(-1)).toBe("u299");
  expect(withShown(choice, "u290").show?.at(-1)).toBe("u290");
});
