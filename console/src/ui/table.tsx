import type { ComponentChildren } from "preact";

export interface Column<T> {
  head: string;
  /** width is fixed, so that columns do not move while data changes. */
  width: string;
  cell: (row: T) => ComponentChildren;
  /** main names the row: in a narrow window it stands above the others. */
  main?: boolean;
  numeric?: boolean;
  /** full takes all of a narrow window. */
  full?: boolean;
}

/**
 * Table is a table that becomes a list of rows in a narrow window. Its roles are written out, because browsers drop those of table
 * elements that are displayed in another way. A note belongs to the main cell; with wideNotes it takes the width of the row.
 */
export function Table<T>({ label, rows, rowKey, columns, note, wideNotes = false }: { label: string; rows: readonly T[]; rowKey: (row: T) => string; columns: Column<T>[]; note?: (row: T) => ComponentChildren; wideNotes?: boolean }) {
  const template = columns.map((c) => `minmax(0, ${c.width.replace("%", "fr")})`).join(" ");
  return (
    <div role="table" aria-label={label} class="table" style={{ "--columns": template }}>
      <div role="row" class="row head">
        {columns.map((c) => (
          <span key={c.head} role="columnheader" class={c.numeric ? "numeric" : undefined}>
            {c.head}
          </span>
        ))}
      </div>
      {rows.map((row) => {
        const says = note?.(row);
        return (
          <div key={rowKey(row)} role="row" class="row">
            {columns.map((c) => (
              <span key={c.head} role="cell" class={[c.main && "main-cell", c.main && wideNotes && "wide-note", c.numeric && "numeric", c.full && "full-cell"].filter(Boolean).join(" ")} data-head={c.head}>
                {c.main ? <span>{c.cell(row)}</span> : c.cell(row)}
                {c.main && says !== undefined && <span class="row-note">{says}</span>}
              </span>
            ))}
          </div>
        );
      })}
    </div>
  );
}
