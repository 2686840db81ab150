import type { ComponentChildren } from "preact";

/** Each icon has a shape of its own, so that states differ without colours. All are 16 by 16. */
const shapes = {
  present: <path d="M8 3.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9z" class="fill" />,
  terminating: <path d="M4 2h8M4 14h8M5 2c0 4 6 4.500 6 6s-6 2-6 6M11 2c0 4-6 4.500-6 6s6 2 6 6" />,
  blocked: <path d="M5.200 1.800h5.600l3.400 3.400v5.600l-3.400 3.400H5.200l-3.400-3.400V5.200zM5 8h6" />,
  protected: <path d="M8 1.700 13.200 3.600v4c0 3.300-2.200 5.600-5.200 6.700-3-1.100-5.200-3.400-5.200-6.700v-4zM5.700 8l1.700 1.700 3-3.400" />,
  unknown: <path d="M8 1.600 14.400 8 8 14.400 1.600 8zM6.500 6.600C6.600 4.600 9.500 4.700 9.500 6.500c0 1.200-1.500 1.200-1.500 2.400M8 10.800v.2" />,
  garbage: <path d="M2.500 4h11M6 4V2.200h4V4M4 4l.7 9.800h6.600L12 4M6.700 6.800v4.400M9.300 6.800v4.400" />,
  absent: <path d="M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11z" stroke-dasharray="2.500 2.200" />,
  removed: <path d="M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11zM5.800 5.800l4.400 4.400M10.200 5.800l-4.400 4.400" />,
  warning: <path d="M8 2 14.500 13.500h-13zM8 6.300v3.400M8 11.500v.2" />,
  error: <path d="M8 1.800a6.200 6.200 0 1 0 0 12.400A6.200 6.200 0 0 0 8 1.800zM8 4.800v4M8 11v.2" />,
  info: <path d="M8 1.800a6.200 6.200 0 1 0 0 12.400A6.200 6.200 0 0 0 8 1.800zM8 7.300v4M8 4.900v.2" />,
  check: <path d="M8 1.800a6.200 6.200 0 1 0 0 12.400A6.200 6.200 0 0 0 8 1.800zM5.300 8.200l2 2 3.500-4.200" />,
  plug: <path d="M5.500 1.800v3.400M10.500 1.800v3.400M3.500 5.200h9v2.300a4.500 4.500 0 0 1-9 0zM8 12v2.500" />,
  cycle: <path d="M13 6.500A5.300 5.300 0 0 0 3.600 5M3 9.500A5.300 5.300 0 0 0 12.400 11M3.400 2v3.200h3.200M12.600 14v-3.200H9.400" />,
  paused: <path d="M5.300 3v10M10.700 3v10" />,
  parked: <path d="M3 2.500h10v11H3zM6.500 11V5h2.300a1.900 1.900 0 0 1 0 3.800H6.500" />,
  brake: <path d="M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11zM8 5v3.200l2 1.500M1.800 4.500v7M14.200 4.500v7" />,
  namespace: <path d="M1.800 2.500h5v11h-5zM9.200 2.500h5v11h-5zM4.500 8h7M9.700 6.200 11.500 8 9.700 9.800" />,
  agent: <path d="M3 5.500h10v7.700H3zM8 5.500V2.500M6 8.700v.8M10 8.700v.8M1.500 8v3M14.500 8v3" />,
  writer: <path d="M3 13l.7-3 6.600-6.600 2.300 2.300L6 12.300zM2 2l12 12" />,
  search: <path d="M7 2.200a4.800 4.800 0 1 0 0 9.600 4.800 4.800 0 0 0 0-9.600zM10.600 10.600l3.400 3.400" />,
  copy: <path d="M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3" />,
  done: <path d="M2.800 8.500l3.500 3.500 7-8" />,
  right: <path d="M6 3.500 10.500 8 6 12.500" />,
  down: <path d="M3.500 6 8 10.500 12.500 6" />,
  user: <path d="M8 2.200a2.900 2.900 0 1 0 0 5.800 2.900 2.900 0 0 0 0-5.800zM2.600 14c.4-3 2.500-4.500 5.400-4.500s5 1.500 5.400 4.500" />,
  created: <path d="M8 3v10M3 8h10" />,
  changed: <path d="M2.500 13.500l.8-3.300 7.700-7.700 2.500 2.500-7.700 7.700zM9.500 4l2.500 2.500" />,
  orphaned: <path d="M7 4.500l1.500-1.500a2.800 2.800 0 0 1 4 4L11 8.500M9 11.500 7.500 13a2.800 2.800 0 0 1-4-4L5 7.500M3 3l1.500 1.500M13 13l-1.500-1.500" />,
  later: <path d="M3 3.500 7.500 8 3 12.500M8.500 3.500 13 8l-4.500 4.500" />,
  event: <path d="M8 5.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5z" />,
  more: <path d="M3.500 8h.1M8 8h.1M12.500 8h.1" stroke-width="2.500" />,
} satisfies Record<string, ComponentChildren>;

export type IconName = keyof typeof shapes;

/** Icon is decoration: a word next to it says the same. */
export function Icon({ name, tone }: { name: IconName; tone?: string | undefined }) {
  return (
    <svg class={`icon${tone === undefined ? "" : ` tone-${tone}`}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      {shapes[name]}
    </svg>
  );
}

/** Logo is a coppiced stool: a stump with new shoots. */
export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" class="ground" />
      <path
        class="shoots"
        d="M16 26V15M16 15C16 10 12.500 8.500 9 8M16 15C16 10 19.500 8.500 23 8M16 21C13 21 10.500 19.500 9 17M16 21C19 21 21.500 19.500 23 17"
      />
    </svg>
  );
}
