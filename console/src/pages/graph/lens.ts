import type Sigma from "sigma";
import { scale, type View, zoomButtons } from "./view.ts";

/** Limits of the pixels of a unit: of "fit", where names of 20 letters fit in a column, and of the camera. */
const fitMost = 52;
const unitMost = 110;
/** What is kept free around the picture by "fit", in pixels: labels go to the right, and words are at the bottom. */
const padding = 24;
const below = 36;
const labelSpace = 110;

/** Place is what the camera looks at, in its own units. */
interface Place {
  x: number;
  y: number;
  ratio: number;
}

/** fitted returns the unit, and where the picture begins, so that all of it is in a window. */
export function fitted(w: number, h: number, { width, height }: { width: number; height: number }): { unit: number; left: number; top: number } {
  const right = Math.max(zoomButtons.width, Math.min(labelSpace, width / 8));
  const inner = { width: Math.max(1, width - padding - right), height: Math.max(1, height - padding - below) };
  const unit = Math.min(fitMost, inner.width / w, inner.height / h);
  return { unit, left: padding + (inner.width - w * unit) / 2, top: padding + (inner.height - h * unit) / 2 };
}

/** Lens moves the camera of sigma. */
export class Lens {
  /** goal is where the camera is going; undefined if it stays, or if a person moves it. */
  private goal: Place | undefined;

  constructor(private readonly sigma: Sigma) {}

  /** unitAt1 is the size of a unit in pixels when the camera has the ratio 1. */
  private unitAt1(): number {
    const at = (x: number) => this.sigma.graphToViewport({ x, y: 0 }, { cameraState: { x: 0.5, y: 0.5, ratio: 1, angle: 0 } }).x;
    return at(1) - at(0);
  }

  view(): View {
    const { width, height } = this.sigma.getDimensions();
    const { x, y, ratio } = this.sigma.getCamera();
    const unit = this.unitAt1() / ratio;
    return { unit, left: width / 2 - x * scale * unit, top: height / 2 - (1 - y) * scale * unit, width, height };
  }

  /** limit sets how far the camera can go for a picture of a size. */
  limit(w: number, h: number): void {
    const camera = this.sigma.getCamera();
    camera.minRatio = this.unitAt1() / unitMost;
    camera.maxRatio = (this.unitAt1() / fitted(w, h, this.sigma.getDimensions()).unit) * 2;
  }

  /** fit shows all of a picture of a size. */
  fit(w: number, h: number): void {
    const { width, height } = this.sigma.getDimensions();
    const { unit, left, top } = fitted(w, h, { width, height });
    this.limit(w, h);
    this.jump({ x: (width / 2 - left) / unit / scale, y: 1 - (height / 2 - top) / unit / scale, ratio: this.unitAt1() / unit });
  }

  /** zoom multiplies the size to which the camera is going, so that each of several fast presses counts. */
  zoom(factor: number): void {
    const camera = this.sigma.getCamera();
    const { x, y, ratio } = this.goal ?? camera;
    this.go({ x, y, ratio: camera.getBoundedRatio(ratio / factor) });
  }

  /** move goes to a place of the picture. */
  move(x: number, y: number, unit: number): void {
    this.go({ x: x / scale, y: 1 - y / scale, ratio: this.unitAt1() / unit });
  }

  /** shift moves the camera with what it looks at, also while it is going to a place. */
  shift(dx: number, dy: number): void {
    const { goal } = this;
    const { x, y, ratio } = this.sigma.getCamera();
    const shifted = (from: Place) => ({ x: from.x + dx / scale, y: from.y - dy / scale, ratio: from.ratio });
    this.jump(shifted({ x, y, ratio }));
    if (goal !== undefined) {
      this.go(shifted(goal));
    }
  }

  /** jump ends a movement, and is at a place at once. */
  private jump(place: Place): void {
    const camera = this.sigma.getCamera();
    this.goal = undefined;
    camera.setState(place);
    if (camera.isAnimated()) {
      // Sigma ends a movement only by another one.
      camera.animate(place, { duration: 1 }, () => undefined);
    }
  }

  /** stop ends a movement where the camera is. */
  stop(): void {
    const { x, y, ratio } = this.sigma.getCamera();
    if (this.goal !== undefined) {
      this.jump({ x, y, ratio });
    }
  }

  private go(goal: Place): void {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.jump(goal);
      return;
    }
    this.goal = goal;
    this.sigma.getCamera().animate(goal, { duration: 220 }, () => {
      if (this.goal === goal) {
        this.goal = undefined;
      }
    });
  }
}
