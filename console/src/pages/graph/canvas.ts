import { DirectedGraph } from "graphology";
import Sigma from "sigma";
import type { Drawing, Events } from "./drawing.ts";
import { Grid } from "./grid.ts";
import { Labels } from "./labels.ts";
import { Lens } from "./lens.ts";
import { Lines } from "./lines.ts";
import { paletteOf } from "./palette.ts";
import type { Change, Picture } from "./picture.ts";
import { shapes, type NodeLook } from "./program.ts";
import { scale, sizeOf } from "./view.ts";

/** The pixels of a unit that the camera moves to when it goes to a node. */
const unitNear = 20;

/** Lines are left out while the camera moves if frames take longer, in ms, and for so long after it. */
const slowFrame = 50;
const rest = 160;

/** A click selects the nearest node within so many pixels. */
const reach = 14;

/** Canvas draws a picture with sigma: its camera, its mouse and its nodes. Nodes of sigma are slots of the picture. */
export class Canvas implements Drawing {
  private readonly sigma: Sigma;
  private readonly lens: Lens;
  private readonly lines: Lines;
  private readonly grid = new Grid();
  private readonly labels: Labels;
  private readonly names: CanvasRenderingContext2D;
  private readonly palette: { current: ReturnType<typeof paletteOf> };
  private readonly scheme = matchMedia("(prefers-color-scheme: dark)");
  private graph: DirectedGraph<NodeLook>;
  private selected = -1;
  private hovered = -1;
  /** toggled is the key of the node that was opened or closed last, until another one is selected. */
  private toggled: string | undefined;
  /** The grid and the owners, the lines, or those of the selected node, are not those of the picture. */
  private stale = true;
  private staleLines = true;
  private staleSelected = true;
  private wantsFit = true;
  private awaitsFirst = false;
  private anchor: { key: string; x: number; y: number } | undefined;
  /** When the camera moved and a frame was drawn, and how long frames take during a movement, in ms. */
  private movedAt = -Infinity;
  private frameAt = 0;
  private frameTime = 0;
  /** bare: lines are left out until the movement ends. */
  private bare = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ended = false;

  constructor(
    private readonly host: HTMLElement,
    private readonly picture: Picture,
    private readonly events: Events,
  ) {
    this.palette = { current: paletteOf(host) };
    this.labels = new Labels(picture, this.grid);
    this.graph = this.nodes();
    // Sigma scales positions when it reads a graph: first it must know by how much.
    const sigma: Sigma = new Sigma(new DirectedGraph(), host, {
      nodeProgramClasses: { shape: shapes(this.palette) },
      defaultNodeType: "shape",
      renderLabels: false,
      enableCameraRotation: false,
      stagePadding: 0,
      zoomingRatio: 1.5,
      allowInvalidContainer: true,
    });
    this.sigma = sigma;
    this.lens = new Lens(sigma);
    sigma.setCustomBBox({ x: [0, scale], y: [-scale, 0] });
    sigma.setGraph(this.graph);
    const layer = sigma.createCanvas("lines", { beforeLayer: "edges" });
    this.lines = new Lines(sigma.createWebGLContext("lines", { canvas: layer, antialias: false }));
    const { labels, nodes } = sigma.getCanvases();
    const names = labels?.getContext("2d");
    if (!names) {
      throw new Error("the browser has no canvas for text");
    }
    this.names = names;
    nodes?.addEventListener("webglcontextlost", this.lost);
    sigma.resize(true);
    // Sigma looks for the node below the pointer by reading pixels, which waits for the graphics card. The grid does not.
    sigma.getMouseCaptor().removeAllListeners("mousemove");
    sigma.on("clickStage", ({ event }) => this.click(event.x, event.y));
    sigma.on("doubleClickStage", ({ event }) => {
      event.preventSigmaDefault();
      const slot = this.nearest(event.x, event.y);
      if (slot >= 0) {
        this.toggled = picture.keyOf(slot);
        events.toggle(slot);
      }
    });
    sigma.on("afterRender", () => this.rendered());
    sigma.getCamera().on("updated", () => this.moved());
    host.addEventListener("pointermove", this.pointed);
    host.addEventListener("pointerleave", this.left);
    host.addEventListener("pointerdown", this.grab);
    host.addEventListener("wheel", this.touch, { passive: true });
    this.scheme.addEventListener("change", this.recolour);
    this.follow();
  }

  /** nodes returns a graph with a node for each slot, and some more. */
  private nodes(): DirectedGraph<NodeLook> {
    const graph = new DirectedGraph<NodeLook>({ allowSelfLoops: false });
    const length = this.picture.slots + Math.max(64, this.picture.slots >> 4);
    for (let slot = 0; slot < length; slot++) {
      graph.addNode(slot, this.set(slot, { x: 0, y: 0, size: 1, look: 0, hidden: true }));
    }
    return graph;
  }

  /** set writes what a node of sigma has of a slot. */
  private set(slot: number, node: NodeLook): NodeLook {
    const { picture } = this;
    node.hidden = !picture.shown(slot);
    if (!node.hidden) {
      const { kind, closed } = picture.lookOf(slot);
      node.x = picture.x[slot] ?? 0;
      node.y = -(picture.y[slot] ?? 0);
      node.look = picture.look[slot] ?? 0;
      node.size = sizeOf(picture.below[slot] ?? 0, closed, kind);
    }
    return node;
  }

  before(): void {
    const { picture } = this;
    const { unit, left, top, width, height } = this.lens.view();
    this.anchor = undefined;
    const onScreen = (slot: number) => {
      const x = (picture.x[slot] ?? 0) * unit + left;
      const y = (picture.y[slot] ?? 0) * unit + top;
      return picture.shown(slot) && x >= 0 && x <= width && y >= 0 && y <= height;
    };
    const toggled = this.toggled === undefined ? -1 : picture.find(this.toggled);
    const chosen = [toggled, this.selected].find(onScreen);
    const slot = chosen ?? this.nearest(width / 2, height / 2, Math.max(width, height) / 2);
    if (slot >= 0) {
      this.anchor = { key: picture.keyOf(slot), x: picture.x[slot] ?? 0, y: picture.y[slot] ?? 0 };
    }
  }

  update({ first, slots }: Change): void {
    const { picture, graph, sigma } = this;
    if (first && this.awaitsFirst) {
      this.awaitsFirst = false;
      this.wantsFit = true;
    }
    if (picture.slots > graph.order) {
      this.graph = this.nodes();
      sigma.setGraph(this.graph);
    } else {
      const changed = first ? graph.nodes() : Array.from(slots, String);
      for (const node of changed) {
        // The attributes are changed in place: an event of graphology for each node would cost more than the change.
        this.set(Number(node), graph.getNodeAttributes(node));
      }
      sigma.refresh({ partialGraph: { nodes: changed }, skipIndexation: true, schedule: true });
    }
    if (first || slots.has(this.hovered)) {
      this.hovered = -1; // the slot may have another node now
    }
    this.stale = true;
    this.staleLines = true;
    const { w, h } = this.size();
    this.lens.limit(w, h);
    if (!this.follow()) {
      this.keep();
    }
    sigma.scheduleRender();
  }

  /** follow shows all of a picture that is new, until it is read and unless a person moves the camera. */
  private follow(): boolean {
    const { head } = this.picture;
    if (!this.wantsFit || head === undefined || head.shown === 0) {
      return false;
    }
    this.fit();
    this.wantsFit = head.loading === true;
    return true;
  }

  /** keep moves the camera with the node that is to stay at its place on the screen. */
  private keep(): void {
    const { anchor, picture } = this;
    const slot = anchor === undefined ? -1 : picture.find(anchor.key);
    if (anchor === undefined || slot < 0) {
      return;
    }
    const dx = (picture.x[slot] ?? 0) - anchor.x;
    const dy = (picture.y[slot] ?? 0) - anchor.y;
    if (dx !== 0 || dy !== 0) {
      this.lens.shift(dx, dy);
    }
  }

  select(slot: number): void {
    if (slot !== this.selected) {
      this.selected = slot;
      this.staleSelected = true;
      if (slot >= 0 && this.picture.keyOf(slot) !== this.toggled) {
        this.toggled = undefined;
      }
    }
    this.sigma.scheduleRender();
  }

  reveal(slot: number): void {
    const { unit, left, top, width, height } = this.lens.view();
    const x = (this.picture.x[slot] ?? 0) * unit + left;
    const y = (this.picture.y[slot] ?? 0) * unit + top;
    const margin = Math.min(60, width / 6);
    if (unit >= unitNear * 0.75 && x > margin && x < width - 2 * margin && y > margin && y < height - margin) {
      return;
    }
    this.wantsFit = false;
    this.lens.move(this.picture.x[slot] ?? 0, this.picture.y[slot] ?? 0, Math.max(unit, unitNear));
  }

  zoom(factor: number): void {
    this.wantsFit = false;
    this.lens.zoom(factor);
  }

  refit(): void {
    this.awaitsFirst = true;
  }

  fit(): void {
    const { w, h } = this.size();
    this.lens.fit(w, h);
  }

  /** size is that of the picture, at least of a node. */
  private size(): { w: number; h: number } {
    const { head } = this.picture;
    return { w: Math.max(3, head?.width ?? 0), h: Math.max(1, head?.height ?? 0) };
  }

  private moved(): void {
    const now = performance.now();
    if (now - this.movedAt > rest) {
      this.frameTime = 0;
      this.frameAt = now;
    }
    this.movedAt = now;
  }

  /** measure decides whether this frame has lines. */
  private measure(): void {
    const now = performance.now();
    clearTimeout(this.timer);
    if (now - this.movedAt > rest) {
      this.bare = false;
      return;
    }
    this.frameTime = this.frameTime === 0 ? (now - this.frameAt) / 2 : 0.6 * this.frameTime + 0.4 * (now - this.frameAt);
    this.frameAt = now;
    this.bare ||= this.frameTime > slowFrame;
    if (this.bare) {
      this.timer = setTimeout(() => this.sigma.scheduleRender(), rest + 10);
    }
  }

  private rendered(): void {
    const { picture, sigma } = this;
    const view = this.lens.view();
    this.measure();
    this.lines.clear();
    if (this.staleLines && !this.bare) {
      this.staleLines = false;
      this.staleSelected = true;
      this.lines.update(picture);
    }
    if (this.staleSelected && !this.bare) {
      this.staleSelected = false;
      this.lines.select(picture, this.selected);
    }
    this.lines.draw(sigma.getRenderParams().matrix, view.unit, this.palette.current, this.bare);
    this.index();
    this.labels.draw(this.names, view, this.palette.current, this.selected, this.hovered);
    const { head } = picture;
    if (head !== undefined) {
      this.host.dataset.revision = String(head.revision);
      this.host.dataset.shown = String(head.shown);
      if (head.shown > 0 && this.host.dataset.painted === undefined) {
        this.host.dataset.painted = "true";
        performance.mark("graph-first-paint");
      }
    }
  }

  private index(): void {
    if (this.stale) {
      this.stale = false;
      this.grid.build(this.picture);
      this.labels.build();
    }
  }

  /** nearest returns the node that is nearest to a place on the screen, the most severe of those that are as near; -1 if there is none. */
  private nearest(x: number, y: number, within = reach): number {
    this.index();
    const { picture } = this;
    const { unit, left, top } = this.lens.view();
    let found = -1;
    let least = within;
    const [px, py, r] = [(x - left) / unit, (y - top) / unit, within / unit];
    this.grid.visit(px - r, py - r, px + r, py + r, (slot) => {
      const distance = Math.hypot((picture.x[slot] ?? 0) - px, (picture.y[slot] ?? 0) - py) * unit - picture.lookOf(slot).state;
      if (distance < least) {
        least = distance;
        found = slot;
      }
    });
    return found;
  }

  private click(x: number, y: number): void {
    this.events.select(this.nearest(x, y));
  }

  private readonly touch = () => {
    this.wantsFit = false;
  };

  private readonly grab = () => {
    this.touch();
    this.lens.stop();
  };

  private readonly pointed = (event: PointerEvent) => {
    if (event.buttons !== 0 || event.pointerType === "touch") {
      return;
    }
    const box = this.host.getBoundingClientRect();
    this.hover(this.nearest(event.clientX - box.left, event.clientY - box.top));
  };

  private readonly left = () => this.hover(-1);

  private hover(slot: number): void {
    if (slot !== this.hovered) {
      this.hovered = slot;
      this.host.classList.toggle("over-node", slot >= 0);
      this.sigma.scheduleRender();
    }
  }

  private readonly recolour = () => {
    this.palette.current = paletteOf(this.host);
    this.sigma.scheduleRender();
  };

  private readonly lost = () => {
    if (!this.ended) {
      this.events.lost();
    }
  };

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
    this.host.removeEventListener("pointermove", this.pointed);
    this.host.removeEventListener("pointerleave", this.left);
    this.host.removeEventListener("pointerdown", this.grab);
    this.host.removeEventListener("wheel", this.touch);
    this.scheme.removeEventListener("change", this.recolour);
    this.sigma.kill();
  }
}
