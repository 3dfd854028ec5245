// Line plots of one or two series over time, as SVG.
import { h, svg } from "/console.js";

const WIDTH = 480, HEIGHT = 150, LEFT = 76, RIGHT = 8, TOP = 8, BOTTOM = 20;

/** A plot. `points`: [seconds, value, value?]; `names`: of the series; `show`: a value as text. */
export function plot(title, points, names, show) {
  const values = points.flatMap((point) => point.slice(1));
  const top = Math.max(1, ...values);
  const first = points[0]?.[0] ?? 0, last = points.at(-1)?.[0] ?? 1;
  const x = (time) => LEFT + ((time - first) / Math.max(1, last - first)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const line = (index) => points.map((point, at) => `${at ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[index]).toFixed(1)}`).join("");
  const now = points.at(-1)?.slice(1) ?? [];
  const summary = points.length
    ? names.map((name, at) => `${name}: now ${show(now[at])}, at most ${show(Math.max(...points.map((p) => p[at + 1])))}`).join("; ")
    : "no samples yet";
  const clock = (time) => new Date(time * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const figure = h("figure", { class: "card" },
    h("h2", {}, title),
    svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${summary}` },
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(0), y2: y(0) }),
      svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(top), y2: y(top) }),
      svg("text", { x: LEFT - 6, y: y(top) + 8, "text-anchor": "end" }, show(top)),
      svg("text", { x: LEFT - 6, y: y(0), "text-anchor": "end" }, "0"),
      points.length ? [
        svg("text", { x: LEFT, y: HEIGHT - 5 }, clock(first)),
        svg("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, clock(last)),
        names.map((_, at) => svg("path", { class: at ? "two" : "one", d: line(at + 1) })),
      ] : []),
    h("figcaption", { class: "keys" }, names.map((name, at) => h("span", { class: at ? "key-two" : "key-one" }, `${name} ${now.length ? show(now[at]) : ""}`))));
  return figure;
}
