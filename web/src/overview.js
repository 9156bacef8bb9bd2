// The first tab of a zone: plots, and the facts of the list.

import { h } from "./dom.js";
import { bytes, percent, span, when } from "./format.js";
import { canvas, draw } from "./plot.js";
import { listen, measure, store } from "./store.js";

/** The plots: label, values, figure and limit. */
const PLOTS = [
    ["CPU", "cpu", zone => percent(zone.cpu_millionths), zone => (zone.caps.cpu_millionths ?? 0) / 1e4],
    ["Memory", "memory", zone => bytes(zone.physical_bytes), zone => zone.caps.physical_bytes],
    ["Network", "network", (zone, past) => zone.network ? `${bytes(past.network.at(-1))}/s` : "not counted"],
    ["Disk", "disk", (zone, past) => zone.disk ? `${bytes(past.disk.at(-1))}/s` : "not counted on this host"],
];

export function overviewTab(pane, name) {
    const plots = PLOTS.map(([label, key, figure, limit]) => {
        const big = h("div", { class: "big" }, "-");
        const small = h("div", { class: "dim" });
        const plot = canvas(260, 70, `${label}, the last two minutes`);
        return { key, figure, limit, big, small, plot, element: h("div", { class: "card" }, h("div", { class: "dim" }, label), big, plot, small) };
    });
    const facts = h("dl", { class: "facts" });
    pane.replaceChildren(h("div", { class: "tiles" }, plots.map(plot => plot.element)), h("div", { class: "card" }, facts));
    const paint = () => {
        const zone = store.zones.get(name);
        const figures = store.figures.get(name);
        const past = store.history.get(name);
        for (const plot of plots) {
            plot.plot.hidden = !figures;
            plot.big.textContent = figures ? plot.figure(figures, past) : "not running";
            const most = figures && plot.limit?.(figures);
            plot.small.textContent = most ? `limit: ${plot.key === "cpu" ? `${most} %` : bytes(most)}` : "";
            if (figures)
                draw(plot.plot, past[plot.key], most);
        }
        if (!zone)
            return;
        const rows = [
            ["Brand", zone.brand], ["Zonepath", zone.zonepath], ["Boots with the host", zone.autoboot ? "yes" : "no"],
            ["Booted", zone.booted ? `${when(zone.booted)} (${span(Date.now() / 1000 - zone.booted)} ago)` : "-"],
            ["Addresses", zone.addresses?.join(", ") || "-"],
            ["Snapshots", zone.snapshots ?? "-"],
            ["Processes", figures ? `${figures.processes ?? "-"}, ${figures.lwps ?? "-"} threads` : "-"],
            ["Waited for a CPU", figures?.pressure ? `${Math.round(figures.pressure.cpu.some_usec / 1000)} ms of the last ${store.host.seconds.toFixed(0)} s` : "-"],
            ["You may", zone.may.join(", ") || "look"],
        ];
        facts.replaceChildren(...rows.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, String(value))]));
    };
    const unlisten = listen(paint);
    const stop = measure(["-z", name]);
    paint();
    return () => {
        unlisten();
        stop();
    };
}
