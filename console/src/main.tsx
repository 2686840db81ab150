import { render } from "preact";
import { sessions } from "./app.ts";
import { Root } from "./root.tsx";
import "./style/index.css";

void sessions.start(location, history);

const app = document.getElementById("app");
if (app !== null) {
  render(<Root />, app);
}
