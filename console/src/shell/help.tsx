import type { RefObject } from "preact";

type Keys = [string[], string][];

const keys: Keys = [
  [["/"], "search objects"],
  [["?"], "show these keys"],
  [["↑", "↓"], "previous or next row of a tree, or match of a search"],
  [["→"], "open a row of a tree, or go to the first row below it"],
  [["←"], "close a row of a tree, or go to the row above it"],
  [["Home", "End"], "first or last row of a tree"],
  [["a", "…", "z"], "next row of a tree whose name begins so"],
  [["Enter"], "show the object of the row"],
  [["Esc"], "close"],
];

const graphKeys: Keys = [
  [["↑", "↓"], "owner, or first dependent, of the selected node"],
  [["←", "→"], "previous or next node below the same owner"],
  [["Home", "End"], "first or last node below the same owner"],
  [["Space"], "open or close the selected node"],
  [["Enter"], "show the page of the selected object, or open or close a group"],
  [["Esc"], "deselect"],
  [["+", "-"], "zoom in or out"],
  [["0", "f"], "show all"],
];

function List({ keys }: { keys: Keys }) {
  return (
    <dl>
      {keys.map(([names, does]) => (
        <div key={does}>
          <dt>
            {names.map((name) => (
              <kbd key={name}>{name}</kbd>
            ))}
          </dt>
          <dd>{does}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Help lists the keys. */
export function Help({ dialog }: { dialog: RefObject<HTMLDialogElement> }) {
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title">
      <header>
        <h2 id="help-title">Keys</h2>
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
      </header>
      <List keys={keys} />
      <h3>In the graph</h3>
      <List keys={graphKeys} />
    </dialog>
  );
}
