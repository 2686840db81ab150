import { render } from "preact";
import "./style/base.css";

const app = document.getElementById("app");
if (app !== null) {
  render(<h1>Coppice</h1>, app);
}
