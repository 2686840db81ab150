import type { Change, Picture } from "./picture.ts";

/** Drawing shows a picture. A page needs none: all that it offers is in the keys, the panel and the legend, too. */
export interface Drawing {
  /** before is called before a frame is applied, and update after it. */
  before(): void;
  update(change: Change): void;
  select(slot: number): void;
  /** reveal moves the camera to a node, if it cannot be seen well. */
  reveal(slot: number): void;
  zoom(factor: number): void;
  fit(): void;
  /** refit shows all of the picture after the next first frame: what is asked for is something else. */
  refit(): void;
  end(): void;
}

/** Events are what a person does in a drawing. */
export interface Events {
  select(slot: number): void;
  /** toggle opens or closes a node. */
  toggle(slot: number): void;
  /** lost: the browser has taken the drawing away. */
  lost(): void;
}

export type Draw = (host: HTMLElement, picture: Picture, events: Events) => Drawing;

/** supported returns whether this browser can draw graphs. */
export function supported(): boolean {
  try {
    const gl = document.createElement("canvas").getContext("webgl");
    gl?.getExtension("WEBGL_lose_context")?.loseContext();
    return gl !== null;
  } catch {
    return false;
  }
}
