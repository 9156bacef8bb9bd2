// The log of a zone: messages of zoneadmd, the console, the journal. Lines come as they are written.

import { h } from "./dom.js";
import { follow } from "./run.js";
import { visible } from "./format.js";

/** Maximum number of lines on the page. */
const MAX_LINES = 2000;

/** Number of earlier lines of each source. */
const EARLIER_LINES = "200";

const SOURCES = ["messages", "console", "journal"];

export function logTab(pane, name) {
    const lines = h("pre", { class: "log", tabindex: "0", "aria-label": "Lines of the log" });
    const error = h("div", { class: "error", role: "alert" });
    const chosen = h("select", { "aria-label": "Source", "data-act": "source", onchange: () => start() },
        h("option", { value: "" }, "All sources"), SOURCES.map(source => h("option", { value: source }, source)));
    pane.replaceChildren(h("div", { class: "card" }, h("div", { class: "bar" }, chosen), error, lines));
    let stop = () => {};
    function add(line) {
        const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 30;
        lines.append(h("span", { class: line.source }, `${line.source}: ${visible(line.text)}\n`));
        while (lines.childElementCount > MAX_LINES)
            lines.firstElementChild.remove();
        if (atEnd)
            lines.scrollTop = lines.scrollHeight;
    }
    function start() {
        stop();
        lines.replaceChildren();
        error.textContent = "";
        const sources = chosen.value === "" ? [] : [chosen.value];
        stop = follow(["zoneadm", "-z", name, "logs", "-f", "-j", "-n", EARLIER_LINES, ...sources], add, why => {
            error.textContent = why?.message ?? "";
        });
    }
    start();
    return () => stop();
}
