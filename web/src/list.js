// The list of zones. It has elements only for the rows that are visible, so 1,000 zones cost no more
// than 30.

import { buttons } from "./act.js";
import { h } from "./dom.js";
import { bytes, percent } from "./format.js";
import { canvas, draw } from "./plot.js";
import { errorText, isRoot, listen, measure, store } from "./store.js";
import { createDialog } from "./create.js";

/** Height of a row in CSS pixels; zones.css has the same. */
const ROW_HEIGHT = 44;

/** Rows above and below the visible ones, so that the tabulator key reaches the next row. */
const EXTRA_ROWS = 4;

const COLUMNS = ["Name", "State", "CPU", "Memory", "Network", "Disk", "Actions"];

export function listView(page) {
    const filter = h("input", { type: "search", placeholder: "Filter by name or state", "aria-label": "Filter", "data-act": "filter", oninput: () => paint() });
    const create = h("button", { type: "button", class: "primary", "data-act": "create", onclick: createDialog }, "Create zone");
    const error = h("div", { class: "error", role: "alert" });
    const who = h("p", { class: "dim", "data-role": "who" });
    const count = h("span", { class: "dim", "data-role": "count" });
    const tiles = hostTiles();
    const space = h("div", { class: "rows", role: "rowgroup" });
    const head = h("div", { class: "row head", role: "row" }, COLUMNS.map((name, at) => h("div", { class: `cell c${at}`, role: "columnheader" }, name)));
    const frame = h("div", { class: "frame", tabindex: "-1" }, space);
    const grid = h("div", { class: "grid", role: "table", "aria-label": "Zones" }, head, frame);
    page.replaceChildren(h("h1", {}, "Zones"), who, tiles.element,
        h("section", { class: "card" }, h("div", { class: "bar" }, filter, count, h("span", { class: "grow" }), create), error, grid));

    const rows = new Map();
    let shown = [];
    function paint() {
        error.textContent = errorText();
        create.hidden = !isRoot();
        who.textContent = isRoot() || store.zones.size === 0 ? "" : "You are not root: you may administer the zones that have buttons.";
        tiles.paint();
        const wanted = filter.value.trim().toLowerCase();
        shown = [...store.zones.values()].filter(zone => zone.name !== "global"
            && (zone.name.toLowerCase().includes(wanted) || zone.state === wanted));
        count.textContent = `${shown.length} zones`;
        grid.setAttribute("aria-rowcount", shown.length + 1);
        space.style.height = `${shown.length * ROW_HEIGHT}px`;
        paintRows();
    }
    function paintRows() {
        const start = performance.now();
        const first = Math.max(0, Math.floor(frame.scrollTop / ROW_HEIGHT) - EXTRA_ROWS);
        const last = Math.min(shown.length, Math.ceil((frame.scrollTop + frame.clientHeight) / ROW_HEIGHT) + EXTRA_ROWS);
        const visible = new Set();
        for (let at = first; at < last; at++) {
            const zone = shown[at];
            visible.add(zone.name);
            let row = rows.get(zone.name);
            if (!row) {
                rows.set(zone.name, row = new Row(zone.name));
                space.append(row.element);
            }
            row.paint(zone, at);
        }
        for (const [name, row] of rows) {
            // The row with the focus stays, or a keyboard user would be thrown to the page's start.
            if (!visible.has(name) && !row.element.contains(document.activeElement)) {
                row.element.remove();
                rows.delete(name);
            }
        }
        store.paintMillis = performance.now() - start;
    }
    frame.addEventListener("scroll", () => requestAnimationFrame(paintRows));
    space.addEventListener("keydown", event => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const at = Number(event.target.closest(".row")?.dataset.at);
        if (!step || Number.isNaN(at) || !shown[at + step])
            return;
        event.preventDefault();
        const top = (at + step) * ROW_HEIGHT;
        if (top < frame.scrollTop)
            frame.scrollTop = top;
        else if (top + ROW_HEIGHT > frame.scrollTop + frame.clientHeight)
            frame.scrollTop = top + ROW_HEIGHT - frame.clientHeight;
        paintRows();
        rows.get(shown[at + step].name)?.link.focus();
    });
    const onresize = () => paintRows();
    window.addEventListener("resize", onresize);
    const unlisten = listen(paint);
    const stop = measure(["-r", "summary,network,disk"]);
    paint();
    return () => {
        window.removeEventListener("resize", onresize);
        unlisten();
        stop();
    };
}

/** The tiles about the whole host. */
function hostTiles() {
    const tile = label => {
        const big = h("div", { class: "big" });
        const small = h("div", { class: "dim" });
        const plot = canvas(120, 36, `${label}, the last two minutes`);
        return { big, small, plot, element: h("div", { class: "card" }, h("div", { class: "dim" }, label), h("div", { class: "bar" }, big, plot), small) };
    };
    const [zones, cpu, memory] = ["Zones", "CPU", "Memory"].map(tile);
    zones.plot.hidden = true;
    return {
        element: h("section", { class: "tiles", "aria-label": "The host" }, zones.element, cpu.element, memory.element),
        paint() {
            const all = [...store.zones.values()].filter(zone => zone.name !== "global");
            zones.big.textContent = `${all.filter(zone => zone.state === "running").length} running`;
            zones.small.textContent = `${all.length} in all`;
            const past = store.history.get("");
            if (!store.host || !past)
                return;
            cpu.big.textContent = percent(store.host.total.cpu_millionths);
            cpu.small.textContent = `of ${store.host.cpus * 100} %`;
            draw(cpu.plot, past.cpu, store.host.cpus * 100);
            memory.big.textContent = bytes(store.host.total.physical_bytes);
            memory.small.textContent = `of ${bytes(store.host.size.physical_bytes)}`;
            draw(memory.plot, past.memory, store.host.size.physical_bytes);
        },
    };
}

/** A row of the list. */
class Row {
    constructor(name) {
        const cell = (at, ...content) => h("div", { class: `cell c${at}`, role: "cell" }, content);
        this.link = h("a", { href: `#/${encodeURIComponent(name)}` }, name);
        this.state = h("span", { class: "state" });
        [this.cpu, this.memory] = ["CPU", "memory"].map(what => canvas(70, 24, `${what} of ${name}`));
        [this.cpuText, this.memoryText, this.network, this.disk] = [0, 0, 0, 0].map(() => h("span"));
        this.actions = h("span", { class: "bar" });
        this.element = h("div", { class: "row", role: "row", "data-zone": name },
            cell(0, this.link), cell(1, this.state), cell(2, this.cpu, this.cpuText), cell(3, this.memory, this.memoryText),
            cell(4, this.network), cell(5, this.disk), cell(6, this.actions));
    }

    paint(zone, at) {
        this.element.style.top = `${at * ROW_HEIGHT}px`;
        this.element.dataset.at = at;
        this.element.setAttribute("aria-rowindex", at + 2);
        const sign = `${zone.state} ${zone.auxiliary ?? ""} ${store.busy.get(zone.name) ?? ""} ${zone.may}`;
        if (this.sign !== sign) {
            this.sign = sign;
            this.state.className = `state ${zone.state}`;
            this.state.textContent = zone.auxiliary ? `${zone.state} (${zone.auxiliary})` : zone.state;
            this.actions.replaceChildren(...buttons(zone, ["boot", "shutdown", "reboot"]));
        }
        const figures = store.figures.get(zone.name);
        const past = store.history.get(zone.name);
        // Nothing has changed since the last sample.
        const drawn = figures && `${store.samples} ${zone.name}`;
        if (this.drawn === drawn)
            return;
        this.drawn = drawn;
        this.cpu.hidden = this.memory.hidden = !figures;
        this.cpuText.textContent = figures ? percent(figures.cpu_millionths) : "";
        this.memoryText.textContent = figures ? bytes(figures.physical_bytes) : "";
        this.network.textContent = figures?.network ? `${bytes(past.network.at(-1))}/s` : "";
        this.disk.textContent = figures?.disk ? `${bytes(past.disk.at(-1))}/s` : "";
        if (figures) {
            draw(this.cpu, past.cpu, 20);
            draw(this.memory, past.memory, figures.caps.physical_bytes);
        }
    }
}
