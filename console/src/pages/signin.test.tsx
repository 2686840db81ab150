import { fireEvent, screen, waitFor } from "@testing-library/preact";
import { expect, test } from "vitest";
import { Tab } from "../../dev/tab.tsx";

function type(field: HTMLElement, value: string): void {
  fireEvent.input(field, { target: { value } });
}

test("a person signs in, and sees the view of the URL", async () => {
  const tab = new Tab();
  tab.state.signedIn = false;
  tab.open("/r/staging");
  await screen.findByRole("heading", { level: 1, name: "Sign in" });
  await tab.settled();
  expect(screen.queryByText(/session has ended/)).toBeNull();
  type(screen.getByLabelText("User"), "ana");
  type(screen.getByLabelText("Password"), "wrong");
  fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
  expect((await screen.findByRole("alert")).textContent).toContain("NATS refuses this user and password");
  expect(location.pathname).toBe("/r/staging");
  type(screen.getByLabelText("Password"), "secret");
  fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
  const heading = await screen.findByRole("heading", { level: 1, name: "Realm staging" });
  await waitFor(() => expect(document.activeElement).toBe(heading));
  await waitFor(() => expect(document.title).toBe("staging · Coppice"));
  expect(tab.requests.filter((r) => r.method === "POST").map((r) => JSON.parse(r.body) as unknown)).toEqual([
    { user: "ana", password: "wrong" },
    { user: "ana", password: "secret" },
  ]);
});

test("a person signs in with a credentials file or its text", async () => {
  const tab = new Tab();
  tab.state.signedIn = false;
  tab.open("/realms");
  fireEvent.click(await screen.findByLabelText("Credentials file"));
  const text = screen.getByLabelText("or its text");
  fireEvent.change(screen.getByLabelText("File"), { target: { files: [new File(["x".repeat(70_000)], "big.creds")] } });
  expect((await screen.findByRole("alert")).textContent).toContain("big.creds has more than 64 KiB");
  fireEvent.change(screen.getByLabelText("File"), { target: { files: [new File(["of a file"], "ana.creds")] } });
  await screen.findByDisplayValue("of a file");
  type(text, "pasted");
  fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
  await screen.findByRole("heading", { level: 1, name: "Realms" });
  expect(tab.requests.filter((r) => r.method === "POST").map((r) => r.body)).toEqual(['{"credentials":"pasted"}']);
});

test("an expired session says so, and signing in leads back", async () => {
  const tab = new Tab();
  tab.open("/r/default/o/secrets/shop/tls");
  const show = await screen.findByRole("button", { name: "Show values" });
  tab.state.signedIn = false;
  fireEvent.click(show);
  await screen.findByText("Your session has ended.");
  expect(location.pathname).toBe("/r/default/o/secrets/shop/tls");
  type(screen.getByLabelText("User"), "ana");
  type(screen.getByLabelText("Password"), "secret");
  fireEvent.click(screen.getByRole("button", { name: "Sign in" }));
  await screen.findByRole("button", { name: "Show values" });
});

test("a local console says where the address is", async () => {
  const tab = new Tab();
  const ways = { local: true, version: "v1" };
  tab.answer = (request) => (request.method === "POST" ? [401, { reason: "Unauthorized", message: "The token is not valid." }] : [401, ways]);
  tab.open("/r/default#token=old");
  expect((await screen.findByRole("alert")).textContent).toContain("The token is not valid.");
  expect(screen.getByText(/Open the address that/)).toBeTruthy();
  expect(screen.queryByLabelText("User")).toBeNull();
  expect(location.hash).toBe("");
});

test("signing out", async () => {
  const tab = new Tab();
  tab.open("/r/staging");
  const user = await screen.findByRole("button", { name: "User ana" });
  await tab.settled();
  fireEvent.click(user);
  fireEvent.click(await screen.findByRole("button", { name: "Sign out" }));
  await screen.findByRole("heading", { level: 1, name: "Sign in" });
  expect(screen.queryByText(/session has ended/)).toBeNull();
});
