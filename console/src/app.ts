import { client } from "./api/client.ts";
import { Live } from "./api/live.ts";
import { Sessions } from "./api/session.ts";

export { client };

/** sessions and live are those of this tab. */
export const sessions = new Sessions(client);

export const live = new Live(
  () => new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/live`),
  // A browser does not say why a WebSocket was refused.
  () => void sessions.check().catch(() => undefined),
);

export const product = "Coppice";
